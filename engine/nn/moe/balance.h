// Balance: what a router is told about the load of its experts. The balance loss of each row of the batch
// (DeepSeek-V3, arXiv:2412.19437, eq. 17-20) and the z loss (ST-MoE, arXiv:2202.08906) have divisors that are
// known before the step: the rows and the positions of the global batch. What is counted goes to the step's
// tallies, as whole numbers.
#pragma once

#include <cstdint>

#include "engine/nn/context.h"
#include "engine/nn/model_config.h"
#include "engine/nn/moe/dispatcher.h"
#include "engine/nn/moe/router.h"

namespace hawser::nn {

/// Words of one layer's tally, and of all layers': context.h says where they are.
inline int64_t tally_words(const MoeConfig& moe) { return moe.experts + kernels::kTallyWords; }
int64_t sparse_layers(const ModelConfig& model);
inline int64_t all_tally_words(const ModelConfig& model) {
  return sparse_layers(model) * tally_words(model.moe);
}

class Balance {
 public:
  Balance(const ParameterTable& table, const ModelConfig& model, const MoeTraining& training, int64_t layer);

  /// For each row of the batch what kernels::RouterStatistics says.
  float* take_saved(const Context& ctx, Region& region) const {
    return region.take_as<float>(ctx.batch * kernels::statistics_width(experts_));
  }
  /// Fills `statistics` in training, summed over the ranks that have other positions of the same rows, and
  /// counts them and the rounds in which the rows went, unless this forward is run once more
  /// (Context::tallies).
  void count(const Context& ctx, float* statistics, const RouterSaved& choice,
             const kernels::RouterShape& shape, const Routes& routes, int64_t rounds) const;
  RouterLosses losses(const Context& ctx, const float* statistics) const;
  /// The bias that steps move; no place if there is none.
  Place bias() const { return bias_; }
  int64_t first_tally() const { return first_tally_; }

 private:
  int64_t experts_, top_k_;
  int64_t first_tally_;  // word of this layer's
  MoeTraining training_;
  Place bias_;
};

}  // namespace hawser::nn
