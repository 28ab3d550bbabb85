// MergedWeights: the weights of a model with an adapter as those of a model without: W + s B A, in f32, or of
// the rows' own magnitudes.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/checkpoint/hf/hf_model.h"

namespace hawser::train {

class MergedWeights {
 public:
  /// `source`: of each factor. All must outlive this object.
  MergedWeights(const nn::ParameterTable& table, const checkpoint::hf::ParameterSource& source)
      : table_(table), source_(source) {}

  const float* find(const std::string& name);
  void drop() { merged_.clear(); }

 private:
  const nn::ParameterTable& table_;
  const checkpoint::hf::ParameterSource& source_;
  std::map<std::string, std::vector<float>> merged_;  // until what they are in is written
};

}  // namespace hawser::train
