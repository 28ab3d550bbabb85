// Segments: the parts of a plan that can be submitted to a device as one piece.
#pragma once

#include <vector>

#include "engine/plan/plan.h"

namespace hawser::plan {

/// Returns the longest segments within instructions [begin, end), in order. Only the first instruction of a
/// segment may need the host or wait for a transfer. All belong to one micro-batch, so that the host can
/// prepare the next micro-batch while the device works. Instructions outside all segments are transfers, or
/// instructions of the host: loading micro-batches, counting tokens, summing the norm, returning logits.
std::vector<Segment> segments(const Plan& plan, size_t begin, size_t end);
/// Returns the reason in words; "" for kNone.
const char* reason(NoGraphs why);
/// Sets the plan's segments. finish calls this.
void assign_segments(Plan* plan);

}  // namespace hawser::plan
