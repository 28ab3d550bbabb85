// The work of one execution of a plan: the calls of kernels on the compute lane, by class.
#pragma once

#include "engine/plan/plan.h"

namespace hawser::plan {

/// Without what the host computes, copies, and the sums that transfers make.
WorkList step_work(const Plan& plan);

}  // namespace hawser::plan
