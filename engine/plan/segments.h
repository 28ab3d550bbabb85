// Segments: what of a plan a device can be given as one piece.
#pragma once

#include <vector>

#include "engine/plan/plan.h"

namespace hawser::plan {

/// Instructions [begin, end) of the compute lane. On the way they need nothing of the host and no transfer:
/// only the first may have to wait for one. All are of one micro-batch, so that the host gives the next while
/// the device works.
struct Segment {
  size_t begin = 0, end = 0;
  bool operator==(const Segment&) const = default;
};

/// The longest ones of instructions [begin, end), in order. What stands in none of them is a transfer, or the
/// host's: micro-batches are loaded, tokens counted, the norm agreed on, logits handed out.
std::vector<Segment> segments(const Plan& plan, size_t begin, size_t end);

}  // namespace hawser::plan
