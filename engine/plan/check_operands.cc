// Operand check: compares the operands of a plan's instructions with the table of ops.
#include "engine/base/error.h"
#include "engine/plan/plan.h"

namespace hawser::plan {
namespace {

/// Returns how many slots a rule allows in an instruction with or without a block.
Count count_of(const OperandRule& rule, bool with_block) {
  if (rule.count == Count::kOneWithBlock) return with_block ? Count::kOne : Count::kNone;
  if (rule.count == Count::kOneWithoutBlock) return with_block ? Count::kNone : Count::kOne;
  return rule.count;
}

using OperandCounts = std::array<int32_t, static_cast<size_t>(Operand::kCount)>;

/// Checks that as many slots are given for an operand as the op's row allows.
void check_count(const Plan& plan, size_t index, Operand operand, int32_t given, Count allowed,
                 bool written) {
  const Instruction& n = plan.instructions[index];
  const bool needs = allowed == Count::kOne || allowed == Count::kSome;
  const bool many = allowed == Count::kSome || allowed == Count::kAny;
  const int32_t most = allowed == Count::kNone ? 0 : many ? given : 1;
  if (given >= (needs ? 1 : 0) && given <= most) return;
  fail(Code::kInternal,
       "plan {}: instruction {} ({}) {} {} slots as \"{}\"; its row in plan/op_table.h says {}", plan.name,
       index, op_name(n.op), written ? "writes" : "reads", given, operand_name(operand),
       most == 0 ? "none"
       : needs   ? (many ? "one or more" : "one")
                 : "at most one");
}

/// Checks that the op's row allows each operand of the instruction, in the number in which it occurs.
void check_rules(const Plan& plan, size_t index, const OperandRules& rules, bool written) {
  const Instruction& n = plan.instructions[index];
  OperandCounts given{};
  for (const Use& use : n.uses)
    if (use.written == written) ++given[static_cast<size_t>(use.operand)];
  for (const OperandRule& rule : rules) {
    if (rule.operand == Operand::kCount) break;
    int32_t& of_operand = given[static_cast<size_t>(rule.operand)];
    if (of_operand < 0) continue;  // the first rule of an operand counts
    check_count(plan, index, rule.operand, of_operand, count_of(rule, n.block >= 0), written);
    of_operand = -1;
  }
  for (const Use& use : n.uses)
    if (const int32_t left = given[static_cast<size_t>(use.operand)]; use.written == written && left > 0)
      check_count(plan, index, use.operand, left, Count::kNone, written);
}

/// The host's processor reaches only host memory, and the host's copies of the step's scalars and sums.
void check_host(const Plan& plan, size_t index) {
  const SlotId scratch = plan.instructions[index].scratch;
  HWS_CHECK(scratch < 0 || plan.slot(scratch).space == Space::kHost);
  for (const Use& use : plan.instructions[index].uses) {
    const Slot& slot = plan.slot(use.slot);
    if (slot.space == Space::kHost || use.operand == Operand::kScalars || use.operand == Operand::kNorm)
      continue;
    fail(Code::kInternal,
         "plan {}: instruction {} ({}) runs on the host, but {} (\"{}\") is in the {}'s memory", plan.name,
         index, op_name(plan.instructions[index].op), slot.name, operand_name(use.operand),
         space_name(slot.space));
  }
}

void check_instruction(const Plan& plan, size_t index) {
  const Instruction& n = plan.instructions[index];
  const OpRow& row = row_of(n.op);
  const Traits& may = row.traits;
  check_rules(plan, index, row.reads, false);
  check_rules(plan, index, row.writes, true);
  const auto refuse = [&](const char* what) {
    fail(Code::kInternal, "plan {}: instruction {} ({}) {}, against its row in plan/op_table.h", plan.name,
         index, row.name, what);
  };
  if (n.flops > 0 && !may.flops) refuse("has FLOPs");
  const bool sends = may.sends && (may.host != Host::kWithoutBlock || n.block < 0);
  if (n.sent_bytes > 0 && !sends) refuse("sends bytes");
  if (n.scratch >= 0 && !may.scratch) refuse("has a workspace");
  if (n.on_host() ? !may.on_host : n.is_transfer() != may.transfer) refuse("is on the wrong kind of lane");
  if (n.on_host()) check_host(plan, index);
}

}  // namespace

void check_operands(const Plan& plan) {
  for (size_t i = 0; i < plan.instructions.size(); ++i) check_instruction(plan, i);
}

}  // namespace hawser::plan
