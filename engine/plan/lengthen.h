// Lengthen: makes the plan of many micro-batches from a plan of few. After the ramp, a stage repeats the same
// instructions for every period of micro-batches until the last ones. So a plan that leaves periods out
// (Stage::left_out) has all that is needed: its instructions before the cut are repeated as often as there
// are periods left out. The result serves the simulator, which then plays every micro-batch; it cannot be
// executed, because its slots are those of the few.
//
// Only waits for memory that transfers still use differ between periods, because slots of equal size take
// each other's places in turn. They are bounded from both sides: no wait that only some periods have, or
// every wait that one of them has. More waits never make a step faster, so if both plans take equally long,
// the full plan takes as long, too.
#pragma once

#include <cstdint>

#include "engine/plan/plan.h"

namespace hawser::plan {

enum class RepeatedWaits : uint8_t { kFewest, kMost };

/// Completes a finished plan of `micro_batches` that leaves `left_out` more out, a multiple of `period`.
/// Returns false, and leaves the plan as it is, unless the last three periods before the cut have the same
/// instructions: then the plan has too few micro-batches.
bool lengthen(Plan* plan, int32_t micro_batches, int32_t left_out, int32_t period, RepeatedWaits waits);

}  // namespace hawser::plan
