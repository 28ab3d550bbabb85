// Balance: measures the load of a router's experts and balances it. The balance loss of each row of the batch
// (DeepSeek-V3, arXiv:2412.19437, eq. 17-20) and the z loss (ST-MoE, arXiv:2202.08906) have divisors that are
// known before the step: the rows and the positions of the global batch. Counts are integers and are added to
// the step's tallies.
#pragma once

#include <cstdint>

#include "engine/nn/context.h"
#include "engine/nn/model_config.h"
#include "engine/nn/moe/dispatcher.h"
#include "engine/nn/moe/router.h"

namespace hawser::nn {

/// Number of 64-bit words of one layer's tally, and of all layers' (Context::tallies).
inline int64_t tally_words(const MoeConfig& moe) { return moe.experts + kernels::kTallyWords; }
/// Returns the number of sparse layers, with the blocks of prediction depths.
int64_t sparse_layers(const ModelConfig& model);
inline int64_t all_tally_words(const ModelConfig& model) {
  return sparse_layers(model) * tally_words(model.moe);
}

/// The weights of a parameter group that are in memory: elements [begin, end).
struct GroupRange {
  float* data = nullptr;
  int64_t begin = 0, end = 0;
};

class Balance {
 public:
  Balance(const ParameterTable& table, const ModelConfig& model, const MoeTraining& training, int64_t layer);

  /// Takes memory for kernels::RouterStatistics of each row of the batch.
  float* take_saved(const Context& ctx, Region& region) const {
    return region.take_as<float>(ctx.batch * kernels::statistics_width(experts_));
  }
  /// In training, fills `statistics`, summed over the ranks that have other positions of the same rows.
  /// Unless this forward is a recomputation (Context::tallies is null), adds them and the number of dispatch
  /// rounds to the tally.
  void count(const Context& ctx, float* statistics, const RouterSaved& choice,
             const kernels::RouterShape& shape, const Routes& routes, int64_t rounds) const;
  RouterLosses losses(const Context& ctx, const float* statistics) const;
  /// The location of the bias that steps move; empty if there is none.
  Place bias() const { return bias_; }
  /// Moves the bias, or the part of it that `weights` has, against the load of the experts in this step
  /// (section 2.1.2 of DeepSeek-V3). `tallies`: of all layers, summed over all ranks.
  void move_bias(const GroupRange& weights, const int64_t* tallies, const kernels::KernelTable& kernels,
                 Stream& stream) const;

 private:
  int64_t experts_, top_k_;
  int64_t first_tally_;  // first word of this layer's tally
  MoeTraining training_;
  Place bias_;
};

}  // namespace hawser::nn
