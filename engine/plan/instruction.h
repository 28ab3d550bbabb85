// Instructions and slots: what a plan is made of. No tensors here: ids and bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hawser::plan {

/// What a slot's bytes are for; memory is reported by it.
enum class Category : uint8_t {
  kWeights,
  kGradients,
  kOptimizer,
  kActivations,
  kBuckets,  ///< gathered weights, gradients on their way between ranks or to where they are kept
  kWorkspace,
  kStaging,
  kTables,
  kCount
};
const char* category_name(Category category);

/// What a slot is to the executor. A block's state is laid out inside its slots as parallel/shard_layout.h
/// says.
enum class Role : uint8_t {
  kOther,
  kWeights,         ///< whole weights of a block, as compute reads them
  kWeightShards,    ///< this rank's part of them
  kSecondary,       ///< this rank's part of them inside the smaller group of /zero/reshard_group
  kMaster,          ///< f32 masters of what is narrower in compute
  kGradients,       ///< whole gradients of a block
  kGradientShards,  ///< this rank's part of the reduced ones
  kShardSums,       ///< f32 sums of that part, before replicas add theirs
  kGradientWindow,  ///< f32 gradients as one backward writes them, where what is kept is narrower
  kLookupGradient,  ///< of a tied embedding: what look-ups add, apart from the head's
  kMoment1,
  kMoment2,
  kCount
};

/// An index into Plan::slots; -1: none.
using SlotId = int32_t;

/// A piece of the arena. Persistent slots live always; others from the first instruction that names them to
/// the last.
struct Slot {
  std::string name;
  Category category = Category::kActivations;
  int64_t bytes = 0;
  bool persistent = false;
  Role role = Role::kOther;
  int32_t block = -1;             ///< whose state it is
  int32_t first = -1, last = -1;  ///< instructions; -1 when no one names it
  int64_t offset = -1;            ///< bytes into the arena
  int32_t last_transfer = -1;     ///< the newest instruction of the communication stream that uses it
};

/// Operands by op (reads | writes). Scratch is the workspace. What computes also reads its blocks' weights and writes
/// their gradients.
///   kLoadMicroBatch                | batch
///   kCountTokens      batches...   | scalars
///   kForward          block 0:     batch | x_1                        (embedding)
///                     block b:     x_b, batch | x_b+1, saved_b
///   kLoss             x, batch, scalars | losses, dx                  (norm, head, loss, and their backward)
///   kEvalLoss         x, batch | losses
///   kLogits           x, batch |
///   kBackward         block b:     x_b, saved_b, batch | dx
///                     block 0:     batch | dx, and lookup_gradient if the head is tied
///   kJoinHeadGrad     lookup_gradient | gradients                     the two gradients of a tied embedding become one
///   kAddGrad          gradients | gradients                           adds one micro-batch's gradients to another's
///   kRoundGrad        gradient window | gradients                     rounds what one backward left
///   kRoundHeadGrad    gradient window | gradients                     the same for the head's part of a tied embedding
///   kReduceGrad       gradients | gradients or gradient shards        sums over ranks, each keeps its shard
///   kReduceReplicas   gradient shards | gradient shards               sums over replicas of a shard
///   kGatherGrad       gradient shards | gradients                     everyone gets the sums
///   kUnshard          weight shards | weights                         everyone gets a block's weights
///   kReshard          weights | secondary                             keeps a part for the backward
///   kGradNorm         block b:     gradients | norm
///                     no block:    norm | norm                        (agreed by all ranks)
///   kOptimizerStep    block b:     gradients, scalars | weights, master, moments
enum class Op : uint8_t {
  kLoadMicroBatch,
  kCountTokens,
  kForward,
  kLoss,
  kEvalLoss,
  kLogits,
  kBackward,
  kJoinHeadGrad,
  kAddGrad,
  kRoundGrad,
  kRoundHeadGrad,
  kReduceGrad,
  kReduceReplicas,
  kGatherGrad,
  kUnshard,
  kReshard,
  kGradNorm,
  kOptimizerStep,
};
const char* op_name(Op op);

/// Where an instruction runs. The communication stream runs beside the compute stream, in order.
enum class StreamId : uint8_t { kCompute, kCommunication };

struct Instruction {
  Op op = Op::kForward;
  int32_t micro_batch = -1;
  int32_t block = -1;   ///< 0 embedding, 1..layers blocks, layers + 1 head
  int32_t bucket = -1;  ///< of the blocks whose gradients or weights travel together
  StreamId stream = StreamId::kCompute;
  bool accumulate = false;  ///< adds to the gradients that it writes
  std::vector<SlotId> reads, writes;
  std::vector<SlotId>
      holds;  ///< not touched, but kept alive, so that an earlier transfer need not be awaited
  SlotId scratch = -1;
  double flops = 0;
  /// By this rank, by the ring form of the operation (comm/ledger.h). On the compute stream: what it agrees
  /// on with all other ranks before it goes on.
  int64_t sent_bytes = 0;
  /// The newest instruction of the communication stream that must be done before this one starts; -1: none.
  /// It follows from the arena bytes that both use.
  int32_t waits_for = -1;
};

}  // namespace hawser::plan
