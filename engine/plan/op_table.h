// The table of ops: for each, its name, what kind of work it is, and the operands that it reads and writes.
// A new op is an entry of Op and a row here, and a case in the executor (train/step/executor.cc): printing,
// memory plan, waits, segments and simulator ask the table.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>

namespace hawser::plan {

/// What an instruction uses a slot as.
enum class Operand : uint8_t {
  kBatch,      ///< tokens, targets, positions of a micro-batch
  kX,          ///< residual that a block reads
  kY,          ///< residual that it makes
  kSaved,      ///< what a forward keeps for its backward
  kCache,      ///< keys and values of a layer, from call to call of a generation
  kDx,         ///< gradient of the residual
  kScalars,    ///< learning rate, 1 / tokens
  kLosses,     ///< by token
  kNorm,       ///< sums of squares and losses
  kWeights,    ///< of the block; of a tied head the embedding's too
  kSecondary,  ///< a part of them that a smaller group keeps
  kGradients,
  kAddend,          ///< gradients that are added to others
  kWindow,          ///< f32 gradients before they are rounded
  kLookupGradient,  ///< of a tied embedding: what look-ups add
  kMaster,
  kMoment1,
  kMoment2,
  kSent,      ///< what a transfer reads; the i-th becomes the i-th of kReceived
  kReceived,  ///< what a transfer writes
  kCount
};

inline constexpr const char* kOperandNames[] = {
    "batch",           "x",      "y",       "saved",     "cache",     "dx",      "scalars",
    "losses",          "norm",   "weights", "secondary", "gradients", "addend",  "window",
    "lookup_gradient", "master", "moment1", "moment2",   "sent",      "received"};
static_assert(std::size(kOperandNames) == static_cast<size_t>(Operand::kCount));
inline const char* operand_name(Operand operand) { return kOperandNames[static_cast<size_t>(operand)]; }

enum class Op : uint8_t {
  kLoadMicroBatch,
  kCountTokens,
  kForward,
  kLoss,  ///< norm, head, loss, and their backward
  kEvalLoss,
  kLogits,
  kBackward,
  kJoinHeadGrad,    ///< the two gradients of a tied embedding become one
  kAddGrad,         ///< adds one micro-batch's gradients to another's
  kRoundGrad,       ///< rounds what one backward left
  kRoundHeadGrad,   ///< the same for the head's part of a tied embedding
  kReduceGrad,      ///< sums gradients over ranks; each keeps its shard
  kReduceReplicas,  ///< sums shards over replicas
  kGatherGrad,      ///< everyone gets the sums
  kUnshard,         ///< everyone gets a block's weights
  kReshard,         ///< keeps a part of them for the backward
  kGradNorm,        ///< of a block; without a block: the norm, agreed by all ranks
  kOptimizerStep,
  kCount
};

/// How many slots of a kind an instruction names.
enum class Count : uint8_t { kNone, kOne, kMaybe, kSome, kAny };  ///< 0, 1, 0 or 1, 1 or more, 0 or more

struct OperandRule {
  Operand operand = Operand::kCount;
  Count count = Count::kNone;
};
using OperandRules = std::array<OperandRule, 4>;

/// Whether the host takes part, so that no device can be given the instruction beforehand.
enum class Host : uint8_t { kNever, kWithoutBlock, kAlways };

/// What an op is, and what it may cost beside time.
struct Traits {
  Host host = Host::kNever;
  bool transfer = false;  ///< it stands on a communication lane
  bool modules = false;   ///< it calls modules of the model
  bool backward = false;  ///< their backward, too
  bool flops = false;     ///< it is known how many
  bool sends = false;     ///< bytes to other ranks
  bool scratch = false;   ///< workspace
};

struct OpRow {
  Op op;
  const char* name;
  Traits traits;
  OperandRules reads, writes;
};

namespace ops {

using enum Operand;
inline constexpr Traits kForward{.modules = true, .flops = true, .scratch = true};
inline constexpr Traits kBackward{.modules = true, .backward = true, .flops = true, .scratch = true};
inline constexpr Traits kLogits{.host = Host::kAlways, .modules = true, .flops = true, .scratch = true};
inline constexpr Traits kLoads{.host = Host::kAlways};
inline constexpr Traits kAgrees{.host = Host::kWithoutBlock, .sends = true, .scratch = true};
inline constexpr Traits kTransfer{.transfer = true, .sends = true};
inline constexpr Traits kState{};

constexpr OperandRule one(Operand o) { return {o, Count::kOne}; }
constexpr OperandRule maybe(Operand o) { return {o, Count::kMaybe}; }
constexpr OperandRule some(Operand o) { return {o, Count::kSome}; }
constexpr OperandRule any(Operand o) { return {o, Count::kAny}; }

/// By op. The embedding has no x; where gradients travel in buckets, or are rounded, a pass gives them a place.
inline constexpr OpRow kRows[] = {
    {Op::kLoadMicroBatch, "LOAD_MICRO_BATCH", kLoads, {}, {one(kBatch), maybe(kX), any(kCache)}},
    {Op::kCountTokens, "COUNT_TOKENS", kAgrees, {some(kBatch)}, {one(kScalars)}},
    {Op::kForward,
     "FORWARD",
     kForward,
     {maybe(kX), one(kBatch), one(kWeights), maybe(kCache)},
     {one(kY), maybe(kSaved), maybe(kCache)}},
    {Op::kLoss,
     "LOSS",
     kBackward,
     {one(kX), one(kBatch), one(kScalars), some(kWeights)},
     {one(kLosses), one(kDx), any(kGradients), any(kWindow)}},
    {Op::kEvalLoss, "EVAL_LOSS", kForward, {one(kX), one(kBatch), some(kWeights)}, {one(kLosses)}},
    {Op::kLogits, "LOGITS", kLogits, {one(kX), one(kBatch), some(kWeights), any(kCache)}, {}},
    {Op::kBackward,
     "BACKWARD",
     kBackward,
     {maybe(kX), maybe(kSaved), one(kBatch), maybe(kWeights)},
     {one(kDx), maybe(kGradients), maybe(kWindow), maybe(kLookupGradient)}},
    {Op::kJoinHeadGrad, "JOIN_HEAD_GRAD", kState, {one(kLookupGradient)}, {one(kGradients)}},
    {Op::kAddGrad, "ADD_GRAD", kState, {one(kAddend)}, {one(kGradients)}},
    {Op::kRoundGrad, "ROUND_GRAD", kState, {one(kWindow)}, {one(kGradients)}},
    {Op::kRoundHeadGrad, "ROUND_HEAD_GRAD", kState, {one(kWindow)}, {one(kGradients)}},
    {Op::kReduceGrad, "REDUCE_GRAD", kTransfer, {some(kSent)}, {some(kReceived)}},
    {Op::kReduceReplicas, "REDUCE_REPLICAS", kTransfer, {some(kSent)}, {some(kReceived)}},
    {Op::kGatherGrad, "GATHER_GRAD", kTransfer, {some(kSent)}, {some(kReceived)}},
    {Op::kUnshard,
     "UNSHARD",
     kTransfer,
     {maybe(kSent)},
     {some(kReceived)}},  // without kSent every rank's part lies in its place already
    {Op::kReshard, "RESHARD", kState, {one(kWeights)}, {one(kSecondary)}},
    {Op::kGradNorm, "GRAD_NORM", kAgrees, {maybe(kGradients), maybe(kNorm)}, {one(kNorm)}},
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

}  // namespace hawser::plan
