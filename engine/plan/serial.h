// The serial schedule: one rank, micro-batches in order. Gradient accumulation and evaluation are plans like
// any other. What the schedules return is unfinished: passes may insert instructions before plan::finish.
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

/// Persistent state of one block on this rank, and what of it stands whole now and then.
struct BlockState {
  int64_t weights = 0;          ///< whole, or this rank's shard where `unsharded` is set
  int64_t unsharded = 0;        ///< whole weights, gathered for use; 0: they always are
  int64_t secondary = 0;        ///< this rank's part in the smaller group; 0: there is none
  int64_t master = 0;           ///< f32 masters where the compute weights are narrower
  int64_t gradients = 0;        ///< whole, always there; 0: they stand only while they are made and reduced
  int64_t gradient_bucket = 0;  ///< bytes of whole gradients, wherever they stand
  int64_t gradient_shards = 0;  ///< of reduced gradients where they have a place of their own
  int64_t shard_sums = 0;       ///< f32 sums of a shard that still wait for those of its replicas
  int64_t gradient_window =
      0;  ///< f32 gradients before they are rounded to what is kept; 0: they are kept so
  int64_t moment1 = 0, moment2 = 0;
};

/// What the schedule must know of the model: bytes only.
struct Sizes {
  std::vector<BlockState> state;   ///< embedding, blocks, head
  int64_t lookup_gradient = 0;     ///< the second accumulator of a tied embedding; else 0
  bool one_tied_gradient = false;  ///< instead: head and look-ups add to one, one after the other
  bool tied_head = false;          ///< the head reads the embedding's weights
  int32_t first_trainable = 0;     ///< no gradient goes below this block
  int64_t rope_table = 0, scalars = 0, norm = 0;
  int64_t norm_workspace = 0;
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

  int32_t head() const { return static_cast<int32_t>(block_forward.size()) + 1; }
};

/// How gradients of micro-batches become one.
enum class Accumulation : uint8_t {
  kInPlace,  ///< each is added where the first was written
  kFresh,    ///< each is written anew, and reduced before the next (a pass says where to)
  kTree,     ///< pairs are added, then pairs of pairs: one binary tree over micro-batches (a power of two)
};

/// LOAD all micro-batches, COUNT_TOKENS, then per micro-batch FORWARD.. LOSS BACKWARD.., then GRAD_NORM |
/// OPTIMIZER_STEP.
Plan train_plan(const Sizes& sizes, int32_t micro_batches, Accumulation accumulation);
/// One micro-batch forward and its loss.
Plan eval_plan(const Sizes& sizes);
/// One micro-batch forward and its logits, which go to the caller's memory.
Plan logits_plan(const Sizes& sizes);
/// Up to `rows` next positions of one text through the KV caches, and the logits of the last.
Plan generate_plan(const Sizes& sizes);

}  // namespace hawser::plan
