#include "engine/train/step/step_graphs.h"

#include <fmt/format.h>

namespace hawser::train {

StepGraphs::~StepGraphs() {
  for (Part& part : parts_) forget(&part);
}

StepGraphs::Part* StepGraphs::part(const plan::Plan& plan, size_t begin, size_t end, const Shape& shape) {
  if (device_ == nullptr || !without_.empty()) return nullptr;
  for (Part& part : parts_) {
    if (part.plan != &plan || part.begin != begin || part.end != end) continue;
    if (part.shape == shape) return &part;
    (void)device_->synchronize(kStream);  // an error of what still runs is told where it is waited for
    forget(&part);
    part.shape = shape;
    part.has_run = false;
    return &part;
  }
  Part& part = parts_.emplace_back();
  part.plan = &plan, part.begin = begin, part.end = end, part.shape = shape;
  for (const plan::Segment& segment : plan::segments(plan, begin, end))
    part.segments.push_back({segment, nullptr});
  return &part;
}

void StepGraphs::forget(Part* part) {
  for (Segment& segment : part->segments) {
    if (segment.graph != nullptr) device_->free_graph(segment.graph);
    segment.graph = nullptr;
  }
}

bool StepGraphs::begins() {
  if (!without_.empty()) return false;
  if (device_->begin_capture(kStream) == 0) return true;
  gives_up();
  return false;
}

device::Graph* StepGraphs::ended() {
  device::Graph* graph = nullptr;
  if (device_->end_capture(kStream, &graph) != 0) gives_up();
  return graph;
}

void StepGraphs::gives_up() {
  without_ = fmt::format("no CUDA graphs: the device could not capture a step ({})", device_->message());
}

}  // namespace hawser::train
