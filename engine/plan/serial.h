// The serial schedule: one rank, micro-batches in order. Gradient accumulation and evaluation are plans like
// any other.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/plan/plan.h"

namespace hawser::plan {

/// Bytes and FLOPs of one call of a block.
struct Cost {
  int64_t workspace = 0, saved = 0;
  double flops = 0;
};

/// What the schedule must know of the model: bytes only.
struct Sizes {
  // Persistent state.
  int64_t weights = 0;                       ///< compute weights
  int64_t master = 0;                        ///< fp32 masters where the compute weights are narrower; else 0
  int64_t gradients = 0, head_gradient = 0;  ///< the second accumulator of a tied embedding; else 0
  int64_t moment1 = 0, moment2 = 0;
  int64_t rope_table = 0, scalars = 0, partials = 0;
  // One micro-batch.
  int64_t residual = 0;  ///< x and dx
  int64_t batch = 0;     ///< tokens, targets, positions, document starts, sample numbers
  int64_t losses = 0;
  Cost embedding_forward, embedding_backward;
  std::vector<Cost> block_forward, block_backward;
  Cost loss, loss_eval, logits;
  // Generation.
  int64_t generate_residual = 0, generate_batch = 0, generate_workspace = 0;
  int64_t kv_cache = 0;  ///< keys and values of one layer
};

/// LOAD all micro-batches, COUNT_TOKENS, then per micro-batch FORWARD.. LOSS BACKWARD.., then REDUCE_GRAD,
/// GRAD_NORM | OPTIMIZER_STEP.
Plan train_plan(const Sizes& sizes, int32_t micro_batches);
/// One micro-batch forward and its loss.
Plan eval_plan(const Sizes& sizes);
/// One micro-batch forward and its logits, which go to the caller's memory.
Plan logits_plan(const Sizes& sizes);
/// Up to `rows` next positions of one text through the KV caches, and the logits of the last.
Plan generate_plan(const Sizes& sizes);

}  // namespace hawser::plan
