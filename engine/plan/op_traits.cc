#include "engine/plan/op_traits.h"

#include <iterator>

#include "engine/base/error.h"

namespace hawser::plan {
namespace {

using enum Operand;
constexpr Traits kForward{.modules = true, .flops = true, .scratch = true};
constexpr Traits kBackward{.modules = true, .backward = true, .flops = true, .scratch = true};
constexpr Traits kLogits{.host = Host::kAlways, .modules = true, .flops = true, .scratch = true};
constexpr Traits kLoads{.host = Host::kAlways};
constexpr Traits kAgrees{.host = Host::kWithoutBlock, .sends = true, .scratch = true};
constexpr Traits kTransfer{.transfer = true, .sends = true};
constexpr Traits kState{};

constexpr OperandRule one(Operand o) { return {o, Count::kOne}; }
constexpr OperandRule maybe(Operand o) { return {o, Count::kMaybe}; }
constexpr OperandRule some(Operand o) { return {o, Count::kSome}; }
constexpr OperandRule any(Operand o) { return {o, Count::kAny}; }

/// By op. The embedding has no x; where gradients travel in buckets, or are rounded, a pass gives them a place.
constexpr OpRow kRows[] = {
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

Count count_of(const OperandRules& rules, Operand operand) {
  for (const OperandRule& rule : rules)
    if (rule.operand == operand) return rule.count;
  return Count::kNone;
}

/// Each of the instruction's operands stands in the row, and often enough in the instruction.
void check_operands(const Plan& plan, size_t index, const OperandRules& rules, bool written) {
  const Instruction& n = plan.instructions[index];
  std::array<int32_t, static_cast<size_t>(kCount)> given{};
  for (const Use& use : n.uses)
    if (use.written == written) ++given[static_cast<size_t>(use.operand)];
  for (size_t o = 0; o < given.size(); ++o) {
    const Count allowed = count_of(rules, static_cast<Operand>(o));
    const bool needs = allowed == Count::kOne || allowed == Count::kSome;
    const bool many = allowed == Count::kSome || allowed == Count::kAny;
    const int32_t most = allowed == Count::kNone ? 0 : many ? given[o] : 1;
    if (given[o] >= (needs ? 1 : 0) && given[o] <= most) continue;
    fail(Code::kInternal,
         "plan {}: instruction {} ({}) {} {} slots as \"{}\"; its row in op_traits.cc says {}", plan.name,
         index, op_name(n.op), written ? "writes" : "reads", given[o], operand_name(static_cast<Operand>(o)),
         most == 0 ? "none"
         : needs   ? (many ? "one or more" : "one")
                   : "at most one");
  }
}

}  // namespace

const OpRow& row_of(Op op) { return kRows[static_cast<size_t>(op)]; }
const char* op_name(Op op) { return row_of(op).name; }

const char* operand_name(Operand operand) {
  constexpr const char* kNames[] = {"batch",     "x",         "y",       "saved",  "cache",
                                    "dx",        "scalars",   "losses",  "norm",   "weights",
                                    "secondary", "gradients", "addend",  "window", "lookup_gradient",
                                    "master",    "moment1",   "moment2", "sent",   "received"};
  static_assert(std::size(kNames) == static_cast<size_t>(kCount));
  return kNames[static_cast<size_t>(operand)];
}

void check_instruction(const Plan& plan, size_t index) {
  const Instruction& n = plan.instructions[index];
  const OpRow& row = row_of(n.op);
  const Traits& may = row.traits;
  check_operands(plan, index, row.reads, false);
  check_operands(plan, index, row.writes, true);
  const auto refuse = [&](const char* what) {
    fail(Code::kInternal, "plan {}: instruction {} ({}) {}, against its row in op_traits.cc", plan.name,
         index, row.name, what);
  };
  if (n.flops > 0 && !may.flops) refuse("has FLOPs");
  if (n.sent_bytes > 0 && !may.sends) refuse("sends bytes");
  if (n.scratch >= 0 && !may.scratch) refuse("has a workspace");
  if (n.is_transfer() != may.transfer) refuse("stands on the wrong kind of lane");
}

}  // namespace hawser::plan
