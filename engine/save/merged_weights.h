// MergedWeights: a source of weights that folds an adapter into the base weights, in f32: W + s B A, with
// DoRA rescaled so that each row has its trained magnitude.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/checkpoint/hf/hf_model.h"

namespace hawser::train {

class MergedWeights {
 public:
  /// `source` returns base weights and factors. Both arguments must outlive this object.
  MergedWeights(const nn::ParameterTable& table, const checkpoint::hf::ParameterSource& source)
      : table_(table), source_(source) {}

  const float* find(const std::string& name);
  void drop() { merged_.clear(); }

 private:
  const nn::ParameterTable& table_;
  const checkpoint::hf::ParameterSource& source_;
  std::map<std::string, std::vector<float>> merged_;  // kept until the stored tensor is written
};

}  // namespace hawser::train
