// The work of one execution of a plan: the calls of kernels on the compute lane, by class.
#pragma once

#include "engine/plan/plan.h"

namespace hawser::plan {

/// Returns the kernel calls of one instruction; null if the plan's table has none for it.
const WorkList* calls_of(const Plan& plan, const Instruction& n);
/// Returns the one call of an ADD_GRAD. Its size is that of the instruction's slots.
KernelCalls add_grad(const Plan& plan, const Instruction& n);

/// Returns the calls of all instructions, without updates on the host, copies, and the sums of transfers.
WorkList step_work(const Plan& plan);

}  // namespace hawser::plan
