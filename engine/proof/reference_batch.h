// Inputs of the reference model: the layout of a model's weights in one array, and a global batch.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/nn/parameter.h"

namespace hawser::train {

/// A flat index for every element of a model: its group's begin plus its offset.
class FlatLayout {
 public:
  explicit FlatLayout(const nn::ParameterTable& table) {
    for (const nn::ParameterGroup& g : table.groups()) begins_.push_back(size_), size_ += g.elements;
  }
  int64_t size() const { return size_; }
  int64_t begin(size_t group) const { return begins_[group]; }
  int64_t at(const nn::Parameter& p) const { return begins_[static_cast<size_t>(p.group)] + p.offset; }

 private:
  std::vector<int64_t> begins_;
  int64_t size_ = 0;
};

/// A global batch. Each array is [rows, seq]; document_begin may be empty. Arrays of the teacher are [rows,
/// seq, top].
struct ReferenceBatch {
  int64_t rows = 0, seq = 0;
  std::vector<int32_t> tokens, targets, document_begin;
  int64_t top = 0;  ///< 0: no teacher
  double temperature = 1, teacher_weight = 1;
  std::vector<int32_t> teacher_ids = {};
  std::vector<float> teacher_logprobs = {};
  double ahead_weight = 0;  ///< of the mean loss of prediction depths

  /// Returns the number of targets that are not -100.
  double count() const {
    return static_cast<double>(targets.size()) -
           static_cast<double>(std::count(targets.begin(), targets.end(), -100));
  }
  /// True if position i of the batch and the position `depth` columns after it are in one document.
  bool reaches(int64_t i, int64_t depth) const {
    if (i % seq + depth >= seq) return false;
    const auto at = static_cast<size_t>(i), next = static_cast<size_t>(i + depth);
    return document_begin.empty() || document_begin[at] == document_begin[next];
  }
  /// Returns the number of targets of a prediction depth that are not -100.
  double count_ahead(int64_t depth) const {
    double count = 0;
    for (int64_t i = 0; i < rows * seq; ++i)
      if (reaches(i, depth) && targets[static_cast<size_t>(i + depth)] != -100) ++count;
    return count;
  }
};

}  // namespace hawser::train
