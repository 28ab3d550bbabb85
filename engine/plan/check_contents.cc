// Content check: verifies that a plan writes every slot before reading it, and reduces the gradients of the
// right micro-batch.
#include <vector>

#include "engine/base/error.h"
#include "engine/plan/plan.h"

namespace hawser::plan {
namespace {

/// Rejects a read of a transient slot that no instruction has written, because its memory still holds the
/// bytes of earlier slots.
void check_written(const Plan& plan, size_t index, const std::vector<bool>& written) {
  const Instruction& n = plan.instructions[index];
  for (const Use& use : n.uses) {
    const Slot& slot = plan.slot(use.slot);
    if (use.written || slot.persistent || written[static_cast<size_t>(use.slot)]) continue;
    fail(Code::kInternal,
         "plan {}: instruction {} ({}) reads {} as \"{}\", which no instruction before it writes", plan.name,
         index, op_name(n.op), slot.name, operand_name(use.operand));
  }
}

/// Rejects a reduction for one micro-batch if another micro-batch has overwritten the gradients.
void check_micro_batch(const Plan& plan, size_t index, const std::vector<int32_t>& micro_batch_in) {
  const Instruction& n = plan.instructions[index];
  if (!n.is_transfer() || n.micro_batch < 0) return;
  for (const Use& use : n.uses) {
    const Slot& slot = plan.slot(use.slot);
    const int32_t held = micro_batch_in[static_cast<size_t>(use.slot)];
    if (use.written || slot.role != Role::kGradients || held == n.micro_batch) continue;
    fail(Code::kInternal,
         "plan {}: instruction {} ({}) reduces the gradients of micro-batch {} in {}, which holds those of "
         "micro-batch {}",
         plan.name, index, op_name(n.op), n.micro_batch, slot.name, held);
  }
}

}  // namespace

void check_contents(const Plan& plan) {
  std::vector<bool> written(plan.slots.size());
  std::vector<int32_t> micro_batch_in(plan.slots.size(), -1);
  for (size_t i = 0; i < plan.instructions.size(); ++i) {
    const Instruction& n = plan.instructions[i];
    check_written(plan, i, written);
    check_micro_batch(plan, i, micro_batch_in);
    for (const Use& use : n.uses) {
      if (!use.written) continue;
      written[static_cast<size_t>(use.slot)] = true;
      if (!n.is_transfer()) micro_batch_in[static_cast<size_t>(use.slot)] = n.micro_batch;
    }
  }
}

}  // namespace hawser::plan
