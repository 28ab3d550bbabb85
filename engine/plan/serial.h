// The plans of one rank: its stage's actions, or all of the model with micro-batches in order. Gradient
// accumulation and evaluation are plans too. The plans returned here are incomplete: passes may insert
// instructions before plan::finish.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/plan/plan.h"
#include "engine/plan/stage.h"

namespace hawser::plan {

/// Bytes and FLOPs of one call of a block, on one rank.
struct Cost {
  int64_t workspace = 0, saved = 0;
  double flops = 0;
  std::vector<ExchangeNote> exchanges = {};  ///< with the ranks that compute the block together
  int64_t kept = 0;                          ///< of `saved`, for the weight half where a backward is in two
  int64_t made = 0;                          ///< by the input half for it
  int64_t remade = 0, remade_kept = 0;       ///< as `saved` and `kept`, of what RECOMPUTE makes again
  bool host = false;                         ///< Instruction::host
};

/// Persistent state of one block on this rank in bytes, and which parts exist as a whole only at times.
struct BlockState {
  int64_t weights = 0;          ///< whole weights, or this rank's shard if `unsharded` is set
  int64_t unsharded = 0;        ///< whole weights, gathered for use; 0 if always whole
  int64_t secondary = 0;        ///< this rank's shard in the smaller group; 0 if there is none
  int64_t master = 0;           ///< f32 masters, if the compute weights are narrower
  int64_t gradients = 0;        ///< whole gradients, always kept; 0 if they exist only until they are reduced
  int64_t gradient_bucket = 0;  ///< bytes of whole gradients, wherever they are
  int64_t gradient_shards = 0;  ///< reduced gradients, if they have a place of their own
  int64_t shard_sums = 0;       ///< f32 sums of a shard that are still to be summed over replicas
  int64_t gradient_window =
      0;  ///< f32 gradients before they are rounded to the stored type; 0 if stored as f32
  int64_t moment1 = 0, moment2 = 0;
};

/// What the schedule needs to know about the model: byte counts only.
struct Sizes {
  std::vector<BlockState> state;  ///< embedding, blocks, head
  int64_t lookup_gradient = 0;    ///< second gradient of a tied embedding; else 0
  int64_t head_gradient =
      0;  ///< the head's part of it that goes from the head's stage to the table's; 0: none does
  int64_t table_gradient = 0;  ///< where the head writes it: as large as the gradients of the table's group
  int64_t sent_table = 0;      ///< the updated table that goes back
  bool one_tied_gradient = false;  ///< head and look-ups instead add to one gradient, one after the other
  /// So many blocks in a row make again what they did not keep, in one go before the backward of the last; 0:
  /// nothing is remade. With more than one, only the first keeps its input.
  int32_t recompute_every = 0;
  bool halves = false;  ///< backwards are BACKWARD_INPUT and BACKWARD_WEIGHT, where the stage says so
  bool weight_half_reads = false;  ///< weights and the batch: adapters make again what they do not keep
  bool pairs = false;              ///< LOGPROBS and OBJECTIVE come before each LOSS
  bool tied_head = false;          ///< the head uses the embedding's weights
  int32_t first_trainable = 0;     ///< lowest block that a gradient reaches
  int64_t rope_table = 0, scalars = 0, norm = 0;
  int64_t scales = 0;  ///< of weights in NF4
  int64_t norm_workspace = 0;
  // For one micro-batch.
  int64_t residual = 0;  ///< x and dx
  int64_t batch = 0;     ///< tokens, targets, positions, document starts, sample numbers
  int64_t losses = 0;
  Cost embedding_forward, embedding_backward;
  std::vector<Cost> block_forward, block_backward;
  std::vector<Cost> block_backward_input, block_backward_weight;  ///< if `halves`
  std::vector<Cost> block_recompute;                              ///< if anything is remade
  Cost loss, loss_eval, logits;
  // For generation.
  int64_t generate_residual = 0, generate_batch = 0, generate_workspace = 0;
  int64_t kv_cache = 0;  ///< keys and values of one layer, or the compressed rows

  int32_t head() const { return static_cast<int32_t>(block_forward.size()) + 1; }
  /// Whether the backward of a block is in two halves. Without gradients there is no second.
  bool in_halves(int32_t block) const {
    return halves && state[static_cast<size_t>(block)].gradient_bucket > 0;
  }
};

/// How the gradients of micro-batches are summed.
enum class Accumulation : uint8_t {
  kInPlace,  ///< each is added to the first
  kFresh,    ///< each is written separately and reduced before the next (a pass assigns the slots)
  kTree,     ///< by one binary tree over micro-batches, whose number is a power of two
};

/// LOAD_MICRO_BATCH for all, COUNT_TOKENS; FORWARD, LOSS and BACKWARD in the order of the stage's actions,
/// with what travels between stages; then GRAD_NORM, and after commit OPTIMIZER_STEP. Blocks of other stages
/// have no state in `sizes`. For each chunk, micro-batches are in ascending order, in forward and in
/// backward.
Plan train_plan(const Sizes& sizes, const Stage& stage, int32_t micro_batches, Accumulation accumulation);
/// Forward and loss of one micro-batch.
Plan eval_plan(const Sizes& sizes, const Stage& stage);
/// The same of several, which the stages of a pipeline take at the same time.
Plan eval_pipeline_plan(const Sizes& sizes, const Stage& stage, int32_t micro_batches);
/// Forward of one micro-batch; its logits go to the caller's memory.
Plan logits_plan(const Sizes& sizes, const Stage& stage);
/// Forward of up to `rows` next positions of one text through the KV caches, and the logits of the last.
Plan generate_plan(const Sizes& sizes, const Stage& stage);

}  // namespace hawser::plan
