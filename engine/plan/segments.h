// Segments: the parts of a plan that can be submitted to a device as one piece.
#pragma once

#include <vector>

#include "engine/plan/plan.h"

namespace hawser::plan {

/// Instructions [begin, end) of the compute lane. Only the first may need the host or wait for a transfer.
/// All belong to one micro-batch, so that the host can prepare the next micro-batch while the device works.
struct Segment {
  size_t begin = 0, end = 0;
  bool operator==(const Segment&) const = default;
};

/// Returns the longest segments within instructions [begin, end), in order. Instructions outside all segments
/// are transfers, or instructions of the host: loading micro-batches, counting tokens, summing the norm,
/// returning logits.
std::vector<Segment> segments(const Plan& plan, size_t begin, size_t end);

}  // namespace hawser::plan
