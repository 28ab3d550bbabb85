// Chunks in flight: the activations that a stage keeps at once, from the order of its actions.
#pragma once

#include <vector>

#include "engine/parallel/pipeline/schedule.h"
#include "engine/report/layout_space.h"

namespace hawser::train {

/// Returns the shape of a layout's pipeline. `group`: /pipeline/group, or 0.
parallel::pipeline::Shape shape_of(const LayoutChoice& c, int64_t micro_batches, int64_t group);

/// Returns the most bytes of activations that a stage has at once. `saved`: of one micro-batch, by chunk in
/// the model's order.
double most_in_flight(const parallel::pipeline::Shape& shape, int64_t stage,
                      const std::vector<double>& saved);

}  // namespace hawser::train
