// StepMaxima: maxima of a step, noted by one rank and then folded over all ranks: the largest magnitudes of
// fp8 operands (nn/fp8_operands.h), or the largest attention scores of heads (optim/score_clip.h). A maximum
// has no order, so all ranks get the same bits in every layout.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "engine/comm/process_group.h"

namespace hawser::train {

class StepMaxima {
 public:
  /// Room for `count` maxima, and for those of each rank of `ranks`; null: one rank.
  StepMaxima(int64_t count, comm::ProcessGroup* ranks)
      : ranks_(ranks),
        noted_(static_cast<size_t>(count)),
        gathered_(ranks ? noted_.size() * static_cast<size_t>(ranks->size()) : 0) {}

  /// Begins a step.
  void clear() { std::fill(noted_.begin(), noted_.end(), 0.0f); }
  /// Replaces the maxima of this rank.
  void set(const std::vector<float>& values) { noted_ = values; }
  void set(const float* values) { std::copy_n(values, noted_.size(), noted_.data()); }
  /// Returns where a step notes its maxima; null if there are none.
  float* noted() { return noted_.empty() ? nullptr : noted_.data(); }
  /// Ends a step's gradient phase: a gather, because groups have sums but no maxima.
  void agree() {
    if (gathered_.empty()) return;
    const auto count = static_cast<int64_t>(noted_.size());
    const comm::GatherPiece piece{gathered_.data(), noted_.data(), count};
    ranks_->wait(ranks_->all_gather({&piece, 1}, DType::kF32));
    for (size_t i = 0; i < gathered_.size(); ++i) {
      float& noted = noted_[i % noted_.size()];
      noted = std::max(noted, gathered_[i]);
    }
  }
  const std::vector<float>& values() const { return noted_; }

 private:
  comm::ProcessGroup* ranks_;
  std::vector<float> noted_, gathered_;
};

}  // namespace hawser::train
