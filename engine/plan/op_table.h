// Op table: the name, kind of work and operands of each op. To add an op, add an entry to Op, a row here, and
// a case in the executor (execute/executor.cc). The printer, the memory plan, the waits, the segments and
// the simulator read the table.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>

namespace hawser::plan {

/// The role that a slot has in an instruction.
enum class Operand : uint8_t {
  kBatch,      ///< tokens, targets, positions of a micro-batch
  kX,          ///< residual stream that a block reads
  kY,          ///< residual stream that a block writes
  kMiddle,     ///< slot that begins with x', the residual stream before the last sum of the block below
  kBranch,     ///< output of the second branch of the block below, which that sum adds to x'
  kBranchOut,  ///< second branch's output of this block, whose last sum is left to the next instruction
  kSaved,      ///< activations that a forward pass saves for the backward pass
  kSavedForWeightPass,  ///< the part of kSaved that the weight pass reads, if the backward has two passes
  kRecomputed,          ///< activations that RECOMPUTE rebuilds; scratch of a forward pass
  kRecomputedForWeightPass,  ///< the part of kRecomputed that the weight pass reads
  kWeightPassInputs,         ///< intermediates that BACKWARD_INPUT stores for BACKWARD_WEIGHT
  kCache,                    ///< keys and values of a layer, which persist between the calls of a generation
  kDx,                       ///< gradient of the residual stream
  kRoundedDx,                ///< kDx rounded to bf16, which the products of the next block's backward read
  kScalars,                  ///< learning rate, 1 / tokens
  kLosses,                   ///< loss of each token
  kNorm,                     ///< sums of squares and losses
  kWeights,                  ///< weights of the block; for a tied head also the embedding's
  kSecondary,                ///< shard of the weights within the secondary group
  kGradients,
  kAddend,          ///< gradients to add
  kWindow,          ///< f32 gradients before they are rounded
  kLookupGradient,  ///< gradient of a tied embedding from look-ups
  kMaster,
  kMoment1,
  kMoment2,
  kAverage,    ///< moving average of the weights
  kDirection,  ///< parts of matrices on their way to an optimizer's step
  kHome,       ///< the results of ORTHOGONALISE, for all ranks that hold parts of the matrices
  kSent,       ///< slots that a transfer reads; the i-th goes to the i-th of kReceived
  kReceived,   ///< slots that a transfer writes
  kCount
};

inline constexpr const char* kOperandNames[] = {
    "batch",   "x",           "y",         "middle",    "branch", "branch_out", "saved",           "kept",
    "remade",  "remade_kept", "made",      "cache",     "dx",     "rounded_dx", "scalars",         "losses",
    "norm",    "weights",     "secondary", "gradients", "addend", "window",     "lookup_gradient", "master",
    "moment1", "moment2",     "average",   "direction", "home",   "sent",       "received"};
static_assert(std::size(kOperandNames) == static_cast<size_t>(Operand::kCount));
inline const char* operand_name(Operand operand) { return kOperandNames[static_cast<size_t>(operand)]; }

enum class Op : uint8_t {
  kLoadMicroBatch,
  kCountTokens,
  kForward,
  kRecompute,  ///< repeats a forward pass, to rebuild the activations that it did not save
  kLogprobs,   ///< the loss of each target, from which OBJECTIVE computes loss weights
  kObjective,  ///< loss weights of the targets, from the log-probabilities of both answers of each pair
  kLoss,       ///< final norm, head and loss, with their backward
  kEvalLoss,
  kLogits,
  kRoundDx,  ///< rounds the gradient of the residual stream that LOSS or another stage computed
  kBackward,
  kBackwardInput,   ///< a backward pass without the gradients of projections
  kBackwardWeight,  ///< the gradients of projections
  kJoinHeadGrad,    ///< adds the two gradients of a tied embedding
  kAddGrad,         ///< adds one micro-batch's gradients to another's
  kRoundGrad,       ///< rounds the gradients of one backward
  kRoundHeadGrad,   ///< rounds the head's part of the gradient of a tied embedding
  kReduceTp,        ///< sums partial gradients of tensor-parallel ranks
  kReduceKv,        ///< sums gradients of key/value heads that several tensor-parallel ranks hold
  kReduceGrad,      ///< sums gradients over ranks; each rank gets its shard
  kReduceReplicas,  ///< sums shards of gradients over replicas
  kGatherGrad,      ///< every rank receives all sums
  kUnshard,         ///< every rank receives the weights of a block
  kReshard,         ///< keeps a shard of the weights for the backward
  kSendF,           ///< sends activations to the chunk above, on another stage
  kRecvF,           ///< receives activations from the chunk below
  kSendB,           ///< sends the gradient of the chunk's input to the chunk below
  kRecvB,           ///< receives the gradient of the chunk's output from the chunk above
  kSendTableGrad,   ///< sends the head's part of the gradient of a shared table to the table's stage
  kRecvTableGrad,
  kSendTable,  ///< sends the updated table to the head's stage
  kRecvTable,
  kOffload,        ///< copies activations that a block saves for its backward to host memory
  kFetch,          ///< copies them back to the arena
  kGradNorm,       ///< squares of a block's gradients; without a block: the norm over all ranks
  kMomentum,       ///< updates the momentum of matrices, writes the input of ORTHOGONALISE (optim/muon.h)
  kGatherMatrix,   ///< brings the parts of each matrix to its home
  kOrthogonalise,  ///< makes the matrices whose home is this rank orthogonal
  kScatterMatrix,  ///< returns them to all ranks that hold parts or copies
  kOptimizerStep,
  kBalance,  ///< moves the biases of a block's router, if OPTIMIZER_STEP runs on another processor
  kCount
};

/// The number of slots that an operand may have.
enum class Count : uint8_t {
  kNone,
  kOne,
  kMaybe,            ///< 0 or 1
  kSome,             ///< 1 or more
  kAny,              ///< 0 or more
  kOneWithBlock,     ///< 1 in an instruction with a block, otherwise 0
  kOneWithoutBlock,  ///< 1 in an instruction without a block, otherwise 0
};

struct OperandRule {
  Operand operand = Operand::kCount;
  Count count = Count::kNone;
};
using OperandRules = std::array<OperandRule, 8>;

/// The instructions of an op in which the host takes part, so that a device cannot run them ahead of it.
enum class Host : uint8_t { kNever, kWithoutBlock, kAlways };

/// Properties of an op, and the costs that it may have besides time.
struct Traits {
  Host host = Host::kNever;
  bool transfer = false;  ///< runs on a communication lane
  bool on_host = false;   ///< may run on the host's processor (Lane::kHost)
  bool modules = false;   ///< runs modules of the model
  bool backward = false;  ///< also runs their backward
  bool flops = false;     ///< its FLOPs are counted
  bool sends = false;     ///< sends bytes to other ranks; if host is kWithoutBlock, only without a block
  bool scratch = false;   ///< may use a workspace
};

struct OpRow {
  Op op;
  const char* name;
  Traits traits;
  OperandRules reads, writes;
};

namespace ops {

using enum Operand;
inline constexpr Traits kForward{.modules = true, .flops = true, .sends = true, .scratch = true};
inline constexpr Traits kBackward{
    .modules = true, .backward = true, .flops = true, .sends = true, .scratch = true};
inline constexpr Traits kLogits{
    .host = Host::kAlways, .modules = true, .flops = true, .sends = true, .scratch = true};
inline constexpr Traits kLoads{.host = Host::kAlways};
inline constexpr Traits kAsks{.host = Host::kAlways, .sends = true};
inline constexpr Traits kAgrees{.host = Host::kWithoutBlock, .sends = true, .scratch = true};
inline constexpr Traits kMeasures{
    .host = Host::kWithoutBlock, .on_host = true, .sends = true, .scratch = true};
inline constexpr Traits kTransfer{.transfer = true, .sends = true};
inline constexpr Traits kMove{.transfer = true};
inline constexpr Traits kState{};
inline constexpr Traits kUpdate{.on_host = true};
inline constexpr Traits kProducts{.flops = true, .scratch = true};

constexpr OperandRule one(Operand o) { return {o, Count::kOne}; }
constexpr OperandRule maybe(Operand o) { return {o, Count::kMaybe}; }
constexpr OperandRule some(Operand o) { return {o, Count::kSome}; }
constexpr OperandRule any(Operand o) { return {o, Count::kAny}; }
constexpr OperandRule one_with_block(Operand o) { return {o, Count::kOneWithBlock}; }
constexpr OperandRule one_without_block(Operand o) { return {o, Count::kOneWithoutBlock}; }

/// Indexed by op. The FORWARD of the embedding has no x. An instruction that reads kMiddle and kBranch
/// computes their sum and writes it to kX, which other instructions read (Sizes::branch). For gradients that
/// are rounded or sent in buckets, a pass assigns the slots.
inline constexpr OpRow kRows[] = {
    {Op::kLoadMicroBatch, "LOAD_MICRO_BATCH", kLoads, {}, {one(kBatch), maybe(kX), any(kCache)}},
    {Op::kCountTokens, "COUNT_TOKENS", kAgrees, {some(kBatch)}, {one(kScalars)}},
    {Op::kForward,
     "FORWARD",
     kForward,
     {maybe(kX), maybe(kMiddle), maybe(kBranch), one(kBatch), maybe(kWeights), maybe(kCache)},
     {maybe(kX), maybe(kY), maybe(kBranchOut), maybe(kSaved), maybe(kSavedForWeightPass), maybe(kRecomputed),
      maybe(kRecomputedForWeightPass), maybe(kCache)}},
    {Op::kRecompute,
     "RECOMPUTE",
     kForward,
     {one(kX), one(kBatch), maybe(kWeights)},
     {maybe(kY), maybe(kSaved), maybe(kSavedForWeightPass), maybe(kRecomputed),
      maybe(kRecomputedForWeightPass)}},
    {Op::kLogprobs,
     "LOGPROBS",
     kForward,
     {maybe(kX), maybe(kMiddle), maybe(kBranch), one(kBatch), any(kWeights)},
     {maybe(kX), one(kLosses)}},
    {Op::kObjective, "OBJECTIVE", kAsks, {one(kLosses)}, {one(kBatch)}},
    {Op::kLoss,
     "LOSS",
     kBackward,
     {maybe(kX), maybe(kMiddle), maybe(kBranch), one(kBatch), one(kScalars), any(kWeights)},
     {maybe(kX), one(kLosses), one(kDx), any(kGradients), any(kWindow)}},
    {Op::kEvalLoss, "EVAL_LOSS", kForward, {one(kX), one(kBatch), any(kWeights)}, {one(kLosses)}},
    {Op::kLogits, "LOGITS", kLogits, {one(kX), one(kBatch), any(kWeights), any(kCache)}, {}},
    {Op::kRoundDx, "ROUND_DX", kState, {one(kDx)}, {one(kRoundedDx)}},
    {Op::kBackward,
     "BACKWARD",
     kBackward,
     {maybe(kX), maybe(kSaved), maybe(kRecomputed), one(kBatch), maybe(kWeights)},
     {one(kDx), maybe(kRoundedDx), maybe(kGradients), maybe(kWindow), maybe(kLookupGradient)}},
    {Op::kBackwardInput,
     "BACKWARD_INPUT",
     kBackward,
     {one(kX), maybe(kSaved), maybe(kSavedForWeightPass), maybe(kRecomputed), maybe(kRecomputedForWeightPass),
      one(kBatch), maybe(kWeights)},
     {one(kDx), maybe(kRoundedDx), one(kWeightPassInputs), maybe(kGradients), maybe(kWindow)}},
    {Op::kBackwardWeight,
     "BACKWARD_WEIGHT",
     kBackward,
     {maybe(kSavedForWeightPass), maybe(kRecomputedForWeightPass), one(kWeightPassInputs), maybe(kBatch),
      maybe(kWeights)},
     {maybe(kGradients), maybe(kWindow)}},
    {Op::kJoinHeadGrad,
     "JOIN_HEAD_GRAD",
     kState,
     {one(kLookupGradient), maybe(kAddend)},  // kAddend is the head's part, if it comes from another stage
     {one(kGradients)}},
    {Op::kAddGrad, "ADD_GRAD", kUpdate, {one(kAddend)}, {one(kGradients)}},
    {Op::kRoundGrad, "ROUND_GRAD", kState, {one(kWindow)}, {one(kGradients)}},
    {Op::kRoundHeadGrad, "ROUND_HEAD_GRAD", kState, {one(kWindow)}, {one(kGradients)}},
    {Op::kReduceTp, "REDUCE_TP", kTransfer, {some(kSent)}, {some(kReceived)}},
    {Op::kReduceKv, "REDUCE_KV", kTransfer, {some(kSent)}, {some(kReceived)}},
    {Op::kReduceGrad, "REDUCE_GRAD", kTransfer, {some(kSent)}, {some(kReceived)}},
    {Op::kReduceReplicas, "REDUCE_REPLICAS", kTransfer, {some(kSent)}, {some(kReceived)}},
    {Op::kGatherGrad, "GATHER_GRAD", kTransfer, {some(kSent)}, {some(kReceived)}},
    {Op::kUnshard,
     "UNSHARD",
     kTransfer,
     {maybe(kSent)},
     {some(kReceived)}},  // kSent is absent if every rank's shard is already in place
    {Op::kReshard, "RESHARD", kState, {one(kWeights)}, {one(kSecondary)}},
    {Op::kSendF, "SEND_F", kTransfer, {one(kSent)}, {}},
    {Op::kRecvF, "RECV_F", kTransfer, {}, {one(kReceived)}},
    {Op::kSendB, "SEND_B", kTransfer, {one(kSent)}, {}},
    {Op::kRecvB, "RECV_B", kTransfer, {}, {one(kReceived)}},
    {Op::kSendTableGrad, "SEND_TABLE_GRAD", kTransfer, {one(kSent)}, {}},
    {Op::kRecvTableGrad, "RECV_TABLE_GRAD", kTransfer, {}, {one(kReceived)}},
    {Op::kSendTable, "SEND_TABLE", kTransfer, {one(kSent)}, {}},
    {Op::kRecvTable, "RECV_TABLE", kTransfer, {}, {one(kReceived)}},
    {Op::kOffload, "OFFLOAD", kMove, {one(kSent)}, {one(kReceived)}},
    {Op::kFetch, "FETCH", kMove, {one(kSent)}, {one(kReceived)}},
    {Op::kGradNorm,
     "GRAD_NORM",
     kMeasures,
     {one_with_block(kGradients), one_without_block(kNorm)},
     {one(kNorm)}},
    {Op::kMomentum, "MOMENTUM", kState, {one(kGradients), one(kScalars)}, {one(kMoment1), one(kDirection)}},
    {Op::kGatherMatrix, "GATHER_MATRIX", kTransfer, {one(kSent)}, {one(kReceived)}},
    {Op::kOrthogonalise,
     "ORTHOGONALISE",
     kProducts,
     {one(kDirection)},  // what GATHER_MATRIX brought, or this rank's own
     {one(kHome)}},      // the same slot if no other rank holds parts or copies
    {Op::kScatterMatrix, "SCATTER_MATRIX", kTransfer, {one(kSent)}, {one(kReceived)}},
    {Op::kOptimizerStep,
     "OPTIMIZER_STEP",
     kUpdate,
     {one(kGradients), one(kScalars), any(kDirection)},
     {maybe(kWeights),  // absent if all of the block's weights leave the host as masters
      maybe(kMaster), maybe(kMoment1), maybe(kMoment2), maybe(kAverage)}},
    {Op::kBalance, "BALANCE", kState, {one(kNorm)}, {one(kWeights)}},
};

constexpr bool in_order() {
  for (size_t i = 0; i < std::size(kRows); ++i)
    if (kRows[i].op != static_cast<Op>(i)) return false;
  return std::size(kRows) == static_cast<size_t>(Op::kCount);
}
static_assert(in_order(), "one row for each op, in the order of Op");

}  // namespace ops

inline const OpRow& row_of(Op op) { return ops::kRows[static_cast<size_t>(op)]; }
inline const char* op_name(Op op) { return row_of(op).name; }
inline const Traits& traits_of(Op op) { return row_of(op).traits; }
/// True if the op copies between the arena and host memory.
inline bool is_move(Op op) { return op == Op::kOffload || op == Op::kFetch; }
/// True if the op sends to or receives from another stage of a pipeline.
inline bool is_message(Op op) { return op >= Op::kSendF && op <= Op::kRecvTable; }

}  // namespace hawser::plan
