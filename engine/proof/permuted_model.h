// PermutedModel: a model with its heads, MLP features and vocabulary in another order. It computes the same
// function, but its sums add in another order, so its distance from the model is the rounding that any order
// of sums may have (promise L4).
#pragma once

#include <cstdint>
#include <vector>

#include "engine/nn/model_config.h"
#include "engine/nn/parameter.h"

namespace hawser::train {

class PermutedModel {
 public:
  /// The order of a given model depends on `seed` alone. The padding token keeps its place.
  PermutedModel(const nn::ModelConfig& model, uint64_t seed);

  /// Returns the place that element `i` of `p` has in the twin's tensor.
  int64_t place(const nn::Parameter& p, int64_t i) const;
  int32_t word(int32_t token) const { return static_cast<int32_t>(words_[static_cast<size_t>(token)]); }

 private:
  const std::vector<int64_t>* order_of(const nn::Parameter& p) const;

  std::vector<int64_t> heads_, kv_heads_, features_, words_;  // the new place of each
};

}  // namespace hawser::train
