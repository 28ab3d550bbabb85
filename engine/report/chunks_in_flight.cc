#include "engine/report/chunks_in_flight.h"

#include <algorithm>

namespace hawser::train {

namespace pipeline = parallel::pipeline;

pipeline::Shape shape_of(const LayoutChoice& c, int64_t micro_batches, int64_t group) {
  if (c.pp == 1) return {.micro_batches = micro_batches};
  const parallel::PipelineSchedule schedule = pipeline::kSchedules[static_cast<size_t>(c.schedule)].schedule;
  return {schedule, c.pp, micro_batches, c.chunks, group > 0 ? group : c.pp};
}

/// The bytes in flight peak as soon as the pipeline is full, so it suffices to replay few micro-batches.
double most_in_flight(const pipeline::Shape& shape, int64_t stage, const std::vector<double>& saved) {
  if (pipeline::is_v(shape.schedule) && shape.micro_batches < 2 * shape.stages) return 0;  // no such schedule
  pipeline::Shape few = shape;
  if (shape.schedule != parallel::PipelineSchedule::kGpipe && shape.micro_batches > 6 * shape.group)
    few.micro_batches = 4 * shape.group + shape.micro_batches % shape.group;
  double bytes = 0, most = 0;
  for (const plan::Action& a : pipeline::actions(few, stage)) {
    const double chunk = saved[static_cast<size_t>(pipeline::place_of(shape, stage, a.chunk))];
    if (a.part == plan::Part::kForward) bytes += chunk;
    if (a.part == plan::Part::kBackward || a.part == plan::Part::kBackwardInput) bytes -= chunk;
    if (!a.overlaps_next) most = std::max(most, bytes);  // of a pair, one gains blocks while the other ends
  }
  return most;
}

}  // namespace hawser::train
