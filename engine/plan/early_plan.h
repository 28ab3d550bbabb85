// Early plan: offsets and waits of the first instructions of a plan, before all slots are placed. They show
// whether the stages of a pipeline deadlock there (deadlock.h). finish completes the plan, which is then the
// same as without this step.
#pragma once

#include <cstddef>

#include "engine/plan/plan.h"

namespace hawser::plan {

/// Assigns memory and waits to instructions [0, end).
void begin(Plan* plan, size_t end);

/// Places the slots that instructions [0, end) use, and the slots on which their offsets depend; but no slot
/// that comes at or after the largest staging slot in the order of placement.
void assign_early_memory(Plan* plan, size_t end);
/// Sets waits_for of instructions [0, end), without waits for the bytes of slots that are not placed.
void assign_early_waits(Plan* plan, size_t end);

}  // namespace hawser::plan
