// PlayedRanks: one rank plays N data-parallel ranks in turn, with nothing of what makes ranks work together:
// no buckets, no shards, no communication. Each rank's gradients come from the serial plan with the global
// token count as divisor; sums are plain loops in the promised order; one serial optimizer step follows. What
// real ranks compute must be the same bits (promise L2).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/base/exact_sum.h"
#include "engine/config/config_tree.h"
#include "engine/config/resolved_config.h"
#include "engine/nn/parameter.h"
#include "engine/parallel/strategy.h"
#include "engine/train/step_result.h"
#include "engine/train/tensors.h"

namespace hawser::train {

/// Gradients of all trainable parameter groups, in the table's order.
using GroupGradients = std::vector<std::vector<float>>;

class PlayedRanks {
 public:
  /// `config`: of many ranks, with batches that are pushed. Initial weights are those that its ranks start
  /// with.
  explicit PlayedRanks(const config::ConfigTree& config);
  ~PlayedRanks();

  struct Step {
    GroupGradients sums;
    double loss = 0, grad_norm = 0;  ///< the norm summed plainly in f64
    int64_t tokens = 0;
  };
  /// Gradients of the next global batch.
  Step forward_backward(const BatchView& batch);
  /// The optimizer step on them, with `grad_norm` for clipping (the ranks' own, so that its last bit cannot
  /// tell).
  void commit(const Step& step, double grad_norm);

  /// Sums of every micro-batch's gradients on their own, for the step that forward_backward would take next:
  /// in f64, and in f32 in order and in reverse. The measure of how far apart orders of summation lie.
  struct Orders {
    std::vector<std::vector<double>> f64;
    GroupGradients ascending, descending;
  };
  Orders sum_orders(const BatchView& batch);

  const nn::ParameterTable& table() const;
  /// The parameter's gradient in `sums`.
  const float* gradient(const GroupGradients& sums, const nn::Parameter& p) const;
  /// f32 weights or moments; false where there are none.
  bool state(TensorKind kind, const nn::Parameter& p, std::vector<float>* out) const;

 private:
  class Player;
  int64_t row(int64_t rank, int64_t micro_batch) const;
  uint64_t cursor(const BatchView& batch) const { return static_cast<uint64_t>(steps_ * batch.rows); }

  const config::ResolvedConfig config_;
  const parallel::DataParallel strategy_;
  const int64_t turn_;  // micro-batches that one rank adds up before ranks are summed
  const std::unique_ptr<Player> player_, single_;
  int64_t steps_ = 0;
};

/// The sum over ranks as `strategy` orders and rounds it; `ranks` is used up.
GroupGradients sum_over_ranks(std::vector<GroupGradients>* ranks, const parallel::DataParallel& strategy);

}  // namespace hawser::train
