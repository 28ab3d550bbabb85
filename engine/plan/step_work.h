// The work of one execution of a plan: the calls of kernels on the compute lane, by class.
#pragma once

#include "engine/plan/plan.h"

namespace hawser::plan {

/// The calls of one instruction; null if it calls no kernel by the plan's table.
const WorkList* calls_of(const Plan& plan, const Instruction& n);
/// The one call of an ADD_GRAD, whose size is that of its slots.
KernelCalls add_grad(const Plan& plan, const Instruction& n);

/// Without what the host computes, copies, and the sums that transfers make.
WorkList step_work(const Plan& plan);

}  // namespace hawser::plan
