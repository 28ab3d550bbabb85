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
  static std::unique_ptr<PlayedRanks> create(const config::ConfigTree& config);
  virtual ~PlayedRanks() = default;

  struct Step {
    GroupGradients sums;
    double loss = 0, grad_norm = 0;  ///< the norm summed plainly in f64
    int64_t tokens = 0;
  };
  /// Gradients of the next global batch.
  virtual Step forward_backward(const BatchView& batch) = 0;
  /// The optimizer step on them, with `grad_norm` for clipping (the ranks' own, so that its last bit cannot
  /// tell).
  virtual void commit(const Step& step, double grad_norm) = 0;

  /// Sums of every micro-batch's gradients on their own, for the step that forward_backward would take next:
  /// in f64, and in f32 in order and in reverse. The measure of how far apart orders of summation lie.
  struct Orders {
    std::vector<std::vector<double>> f64;
    GroupGradients ascending, descending;
  };
  virtual Orders sum_orders(const BatchView& batch) = 0;

  virtual const nn::ParameterTable& table() const = 0;
  /// The parameter's gradient in `sums`.
  virtual const float* gradient(const GroupGradients& sums, const nn::Parameter& p) const = 0;
  /// f32 weights or moments; false where there are none.
  virtual bool state(TensorKind kind, const nn::Parameter& p, std::vector<float>* out) const = 0;
};

/// The sum over ranks as `strategy` orders and rounds it; `ranks` is used up.
GroupGradients sum_over_ranks(std::vector<GroupGradients>* ranks, const parallel::DataParallel& strategy);

}  // namespace hawser::train
