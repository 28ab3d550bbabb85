// Serial plans: schedules for one rank, which execute its stage's actions, or the full model with one
// micro-batch after the other. Gradient accumulation and evaluation are plans too. The plans returned here
// are incomplete: passes may insert instructions before plan::finish.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "engine/plan/plan.h"
#include "engine/plan/stage.h"
#include "engine/plan/state_table.h"

namespace hawser::plan {

/// Bytes and work of one call of a block on one rank.
struct Cost {
  int64_t workspace = 0, saved = 0;
  double flops = 0;
  Work work = {};                            ///< calls of kernels
  std::vector<ExchangeNote> exchanges = {};  ///< exchanges with the ranks that compute the block together
  int64_t kept = 0;                          ///< the part of `saved` that the weight pass reads
  int64_t made = 0;                          ///< intermediates that the input pass stores for the weight pass
  int64_t remade = 0, remade_kept = 0;       ///< as `saved` and `kept`, but filled by RECOMPUTE
  bool host = false;                         ///< Instruction::host
};

/// The matrices of a block that the same ranks exchange and an optimizer updates as a whole, in bytes of one
/// rank (parallel/matrix_homes.h), and their work.
struct MatrixSizes {
  int64_t direction = 0;                ///< this rank's parts; 0: there are no matrices
  int64_t parts = 0;                    ///< those of matrices whose home is this rank; 0: nothing is gathered
  int64_t home = 0;                     ///< results for all ranks; 0: nothing is returned
  int64_t gathered = 0, scattered = 0;  ///< sent
  Cost momentum = {}, orthogonalise = {};
};

/// Sizes of the persistent state of one block on this rank, in bytes, and the work of its update. Some parts
/// exist in full only at times.
struct BlockState {
  int64_t weights = 0;          ///< full weights, or this rank's shard if `unsharded` is set
  int64_t unsharded = 0;        ///< full weights, gathered for use; 0 if they are never sharded
  int64_t secondary = 0;        ///< this rank's shard in the secondary group; 0 if there is none
  int64_t master = 0;           ///< f32 masters, if the compute weights are narrower
  int64_t gradients = 0;        ///< full persistent gradients; 0 if they exist only until they are reduced
  int64_t gradient_bucket = 0;  ///< size of the full gradients, persistent or not
  int64_t gradient_shards = 0;  ///< reduced gradients, if they have a slot of their own
  int64_t shard_sums = 0;       ///< f32 sums of a shard before they are summed over replicas
  /// f32 gradients before they are rounded to the stored type. 0 if that is f32, or if kernels round.
  int64_t gradient_window = 0;
  std::array<int64_t, kStateCount> states = {};  ///< arrays of the optimizer, in the order of kStates
  Work norm = {}, update = {}, round = {};       ///< of GRAD_NORM, OPTIMIZER_STEP, ROUND_GRAD
  std::array<MatrixSizes, 2> matrices = {};      ///< of all but divided experts, and of those
  // In host memory, if the host's processor updates the block (parallel/host_update.h):
  int64_t host_gradients = 0;  ///< gradients of the elements that this rank updates
  int64_t host_weights = 0;    ///< updated weights that are narrower than their masters
};

/// The properties of the model that a schedule needs, as byte counts.
struct Sizes {
  std::vector<BlockState> state;  ///< embedding, blocks, head
  int64_t lookup_gradient = 0;    ///< second gradient of a tied embedding; otherwise 0
  int64_t head_gradient =
      0;  ///< the head's part of it, sent from the head's stage to the table's stage; 0 if it is not sent
  int64_t table_gradient = 0;      ///< the slot that the head writes, with the group's padding
  int64_t sent_table = 0;          ///< the updated table, sent to the head's stage
  int64_t published_table = 0;     ///< the same after weights changed outside a step; also for inference
  bool one_tied_gradient = false;  ///< head and look-ups add to one gradient, one after the other
  bool halves = false;  ///< backwards are BACKWARD_INPUT and BACKWARD_WEIGHT if the stage has such actions
  bool weight_half_reads = false;  ///< BACKWARD_WEIGHT reads weights and batch, for adapters
  bool weighs_targets = false;     ///< LOGPROBS and OBJECTIVE come before each LOSS
  bool tied_head = false;          ///< the head uses the embedding's weights
  bool loss_reads_table = false;   ///< LOSS uses the embedding's weights
  int32_t first_trainable = 0;     ///< lowest block that a gradient reaches
  int64_t rope_table = 0, scalars = 0, norm = 0, fp8_maxima = 0;
  int64_t scales = 0;  ///< scales of weights in NF4
  int64_t norm_workspace = 0;
  WorkList join;    ///< the work of JOIN_HEAD_GRAD
  Work round_head;  ///< of ROUND_HEAD_GRAD
  // The following sizes are for one micro-batch.
  int64_t residual = 0;    ///< x, the residual stream
  int64_t dx = 0;          ///< its gradient
  int64_t rounded_dx = 0;  ///< the rounded gradient of the residual stream, if blocks read and write it
  /// Bytes of the output of a second branch, if blocks leave their last sum to the instruction that reads it
  /// (nn::Block::last_sum). 0: each block computes its own.
  int64_t branch = 0;
  bool saves_middle = false;  ///< saved slots begin with x'; otherwise RECOMPUTE rebuilds x'
  int64_t batch = 0;          ///< tokens, targets, positions, document starts, sample numbers
  int64_t losses = 0;
  Cost embedding_forward, embedding_backward;
  std::vector<Cost> block_forward, block_backward;
  std::array<std::vector<Cost>, 3> block_forward_deferring;  ///< see forward_cost; used if `branch` is set
  std::vector<Cost> block_backward_input, block_backward_weight;  ///< used if `halves` is set
  std::vector<Cost> block_recompute, block_repeat;  ///< of blocks in Stage::recompute, without and with y
  Cost round_dx = {};                               ///< of ROUND_DX
  Cost loss, loss_eval, logits;
  Cost loss_of_sum, loss_eval_of_sum;  ///< with the last sum of the highest block
  // The following sizes are for generation.
  int64_t generate_residual = 0, generate_batch = 0, generate_workspace = 0;
  int64_t kv_cache = 0;  ///< keys and values of one layer, or its compressed rows

  int32_t head() const { return static_cast<int32_t>(block_forward.size()) + 1; }
  /// Returns the cost of the FORWARD of a block. `sums`: it computes the last sum of the block below.
  /// `leaves`: it leaves its own.
  const Cost& forward_cost(int32_t block, bool sums, bool leaves) const {
    const size_t form = (sums ? 1u : 0u) + (leaves ? 2u : 0u);
    return (form == 0 ? block_forward : block_forward_deferring[form - 1])[static_cast<size_t>(block) - 1];
  }
  /// Returns the blocks of a chunk, without embedding and head, that a gradient reaches: [first, second).
  std::pair<int32_t, int32_t> blocks_with_backward(const ModelChunk& chunk) const {
    return {std::max({chunk.begin, 1, first_trainable}), std::min(chunk.end, head())};
  }
  /// True if the backward of a block has two passes. A block without gradients has no weight pass.
  bool in_halves(int32_t block) const {
    return halves && state[static_cast<size_t>(block)].gradient_bucket > 0;
  }
};

/// The order in which gradients of micro-batches are summed.
enum class Accumulation : uint8_t {
  kInPlace,  ///< each is added to the sum of those before it
  kFresh,    ///< each is written separately and reduced before the next (a pass assigns the slots)
  kTree,     ///< one binary tree over micro-batches, whose number is a power of two
};

/// Emits LOAD_MICRO_BATCH for all micro-batches and COUNT_TOKENS; then FORWARD, LOSS and BACKWARD in the
/// order of the stage's actions, with the messages between stages; then GRAD_NORM, and after commit
/// OPTIMIZER_STEP. Blocks of other stages have no state in `sizes`. For each chunk, micro-batches are in
/// ascending order, in forward and in backward.
Plan train_plan(const Sizes& sizes, const Stage& stage, int32_t micro_batches, Accumulation accumulation);
/// Plans the forward and loss of one micro-batch.
Plan eval_plan(const Sizes& sizes, const Stage& stage);
/// Plans the forward and loss of several micro-batches, which the stages of a pipeline process at the same
/// time.
Plan eval_pipeline_plan(const Sizes& sizes, const Stage& stage, int32_t micro_batches);
/// Plans the forward of one micro-batch; its logits go to the caller's memory.
Plan logits_plan(const Sizes& sizes, const Stage& stage);
/// Plans the forward of up to `rows` next positions of one text through the KV caches, and the logits of the
/// last.
Plan generate_plan(const Sizes& sizes, const Stage& stage);
/// Plans what gives every rank its copies of weights that changed outside a step: a table that stages share.
/// Passes add the gathers of shards.
Plan publish_plan(const Sizes& sizes, const Stage& stage);

}  // namespace hawser::plan
