// The table of ops: the name, kind of work and operands of each. To add an op, add an entry to Op, a row
// here, and a case in the executor (train/step/executor.cc). Printing, memory plan, waits, segments and
// simulator use the table.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>

namespace hawser::plan {

/// The role of a slot in an instruction.
enum class Operand : uint8_t {
  kBatch,       ///< tokens, targets, positions of a micro-batch
  kX,           ///< residual stream that a block reads
  kY,           ///< residual stream that it writes
  kSaved,       ///< what forward saves for backward
  kKept,        ///< the part of it that is for the weight half, if the backward is in two
  kRecomputed,  ///< what a block saves and RECOMPUTE makes again; scratch of a forward
  kRemadeKept,  ///< the part of it that is for the weight half
  kMade,        ///< by the input half for the weight half
  kCache,       ///< keys and values of a layer, kept between the calls of a generation
  kDx,          ///< gradient of the residual stream
  kScalars,     ///< learning rate, 1 / tokens
  kLosses,      ///< loss of each token
  kNorm,        ///< sums of squares and losses
  kWeights,  ///< weights of the block, for a tied head also the embedding's; none if all are another engine's
  kSecondary,  ///< shard of the weights within a smaller group
  kGradients,
  kAddend,          ///< gradients to add
  kWindow,          ///< f32 gradients before they are rounded
  kLookupGradient,  ///< gradient of a tied embedding from look-ups
  kMaster,
  kMoment1,
  kMoment2,
  kSent,      ///< what a transfer reads; the i-th goes to the i-th of kReceived
  kReceived,  ///< what a transfer writes
  kCount
};

inline constexpr const char* kOperandNames[] = {
    "batch",     "x",           "y",      "saved",           "kept",
    "remade",    "remade_kept", "made",   "cache",           "dx",
    "scalars",   "losses",      "norm",   "weights",         "secondary",
    "gradients", "addend",      "window", "lookup_gradient", "master",
    "moment1",   "moment2",     "sent",   "received"};
static_assert(std::size(kOperandNames) == static_cast<size_t>(Operand::kCount));
inline const char* operand_name(Operand operand) { return kOperandNames[static_cast<size_t>(operand)]; }

enum class Op : uint8_t {
  kLoadMicroBatch,
  kCountTokens,
  kForward,
  kRecompute,  ///< a forward once more, for what its backward needs and the first did not keep
  kLogprobs,   ///< the loss of each target alone, which OBJECTIVE turns into weights
  kObjective,  ///< weights of the targets, from the log-probabilities of the answers in pairs
  kLoss,       ///< final norm, head and loss, with their backward
  kEvalLoss,
  kLogits,
  kBackward,
  kBackwardInput,   ///< all of a backward but the gradients of projections
  kBackwardWeight,  ///< those
  kJoinHeadGrad,    ///< adds the two gradients of a tied embedding
  kAddGrad,         ///< adds one micro-batch's gradients to another's
  kRoundGrad,       ///< rounds the gradients of one backward
  kRoundHeadGrad,   ///< the same for the head's part of a tied embedding
  kReduceTp,        ///< sums gradients that each tensor-parallel rank has in part, before data is summed
  kReduceKv,        ///< the same for key/value heads that several of these ranks hold
  kReduceGrad,      ///< sums gradients over ranks; each rank gets its shard
  kReduceReplicas,  ///< sums shards over replicas
  kGatherGrad,      ///< every rank gets all sums
  kUnshard,         ///< every rank gets the weights of a block
  kReshard,         ///< keeps a shard of them for the backward
  kSendF,           ///< activations to the chunk above, on another stage
  kRecvF,           ///< activations from the chunk below
  kSendB,           ///< their gradient to the chunk below
  kRecvB,           ///< that of what was sent to the chunk above
  kSendTableGrad,   ///< the head's part of the gradient of a table that it shares, to the table's stage
  kRecvTableGrad,
  kSendTable,  ///< the updated table, to the head's stage
  kRecvTable,
  kOffload,   ///< what a block leaves for its backward, to another space
  kFetch,     ///< and back
  kGradNorm,  ///< squares of a block's gradients; without a block: the norm over all ranks
  kOptimizerStep,
  kCount
};

/// How many slots an operand has.
enum class Count : uint8_t {
  kNone,
  kOne,
  kMaybe,            ///< 0 or 1
  kSome,             ///< 1 or more
  kAny,              ///< 0 or more
  kOneWithBlock,     ///< 1 in an instruction of a block, 0 in one without
  kOneWithoutBlock,  ///< the reverse
};

struct OperandRule {
  Operand operand = Operand::kCount;
  Count count = Count::kNone;
};
using OperandRules = std::array<OperandRule, 7>;

/// Whether the host takes part, so that a device cannot run the instruction ahead of it.
enum class Host : uint8_t { kNever, kWithoutBlock, kAlways };

/// Properties of an op, and which costs it may have beside time.
struct Traits {
  Host host = Host::kNever;
  bool transfer = false;  ///< runs on a communication lane
  bool modules = false;   ///< calls modules of the model
  bool backward = false;  ///< calls their backward, too
  bool flops = false;     ///< its FLOPs are counted
  bool sends = false;     ///< sends bytes to other ranks; under Host::kWithoutBlock only without a block
  bool scratch = false;   ///< may use workspace
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
inline constexpr Traits kTransfer{.transfer = true, .sends = true};
inline constexpr Traits kMove{.transfer = true};
inline constexpr Traits kState{};

constexpr OperandRule one(Operand o) { return {o, Count::kOne}; }
constexpr OperandRule maybe(Operand o) { return {o, Count::kMaybe}; }
constexpr OperandRule some(Operand o) { return {o, Count::kSome}; }
constexpr OperandRule any(Operand o) { return {o, Count::kAny}; }
constexpr OperandRule one_with_block(Operand o) { return {o, Count::kOneWithBlock}; }
constexpr OperandRule one_without_block(Operand o) { return {o, Count::kOneWithoutBlock}; }

/// Indexed by op. The embedding has no x. For gradients that are rounded or sent in buckets, a pass assigns
/// the slots.
inline constexpr OpRow kRows[] = {
    {Op::kLoadMicroBatch, "LOAD_MICRO_BATCH", kLoads, {}, {one(kBatch), maybe(kX), any(kCache)}},
    {Op::kCountTokens, "COUNT_TOKENS", kAgrees, {some(kBatch)}, {one(kScalars)}},
    {Op::kForward,
     "FORWARD",
     kForward,
     {maybe(kX), one(kBatch), maybe(kWeights), maybe(kCache)},
     {one(kY), maybe(kSaved), maybe(kKept), maybe(kRecomputed), maybe(kRemadeKept), maybe(kCache)}},
    {Op::kRecompute,
     "RECOMPUTE",
     kForward,
     {one(kX), one(kBatch), maybe(kWeights)},
     {maybe(kY), maybe(kSaved), maybe(kKept), maybe(kRecomputed), maybe(kRemadeKept)}},
    {Op::kLogprobs, "LOGPROBS", kForward, {one(kX), one(kBatch), any(kWeights)}, {one(kLosses)}},
    {Op::kObjective, "OBJECTIVE", kAsks, {one(kLosses)}, {one(kBatch)}},
    {Op::kLoss,
     "LOSS",
     kBackward,
     {one(kX), one(kBatch), one(kScalars), any(kWeights)},
     {one(kLosses), one(kDx), any(kGradients), any(kWindow)}},
    {Op::kEvalLoss, "EVAL_LOSS", kForward, {one(kX), one(kBatch), any(kWeights)}, {one(kLosses)}},
    {Op::kLogits, "LOGITS", kLogits, {one(kX), one(kBatch), any(kWeights), any(kCache)}, {}},
    {Op::kBackward,
     "BACKWARD",
     kBackward,
     {maybe(kX), maybe(kSaved), maybe(kRecomputed), one(kBatch), maybe(kWeights)},
     {one(kDx), maybe(kGradients), maybe(kWindow), maybe(kLookupGradient)}},
    {Op::kBackwardInput,
     "BACKWARD_INPUT",
     kBackward,
     {one(kX), maybe(kSaved), maybe(kKept), maybe(kRecomputed), maybe(kRemadeKept), one(kBatch),
      maybe(kWeights)},
     {one(kDx), one(kMade), maybe(kGradients), maybe(kWindow)}},
    {Op::kBackwardWeight,
     "BACKWARD_WEIGHT",
     kBackward,
     {maybe(kKept), maybe(kRemadeKept), one(kMade), maybe(kBatch), maybe(kWeights)},
     {maybe(kGradients), maybe(kWindow)}},
    {Op::kJoinHeadGrad,
     "JOIN_HEAD_GRAD",
     kState,
     {one(kLookupGradient), maybe(kAddend)},  // kAddend: the head's part, if it came from another stage
     {one(kGradients)}},
    {Op::kAddGrad, "ADD_GRAD", kState, {one(kAddend)}, {one(kGradients)}},
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
     {some(kReceived)}},  // without kSent every rank's shard is already in place
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
     kAgrees,
     {one_with_block(kGradients), one_without_block(kNorm)},
     {one(kNorm)}},
    {Op::kOptimizerStep,
     "OPTIMIZER_STEP",
     kState,
     {one(kGradients), one(kScalars)},
     {one(kWeights), maybe(kMaster), maybe(kMoment1), maybe(kMoment2)}},
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
/// Whether it copies between the arena and the space beside it.
inline bool is_move(Op op) { return op == Op::kOffload || op == Op::kFetch; }
/// Whether it goes from a stage of a pipeline to another.
inline bool is_message(Op op) { return op >= Op::kSendF && op <= Op::kRecvTable; }

}  // namespace hawser::plan
