#include "engine/train/step/step_graphs.h"

#include <fmt/format.h>

namespace hawser::train {

StepGraphs::~StepGraphs() {
  for (Stretch& stretch : stretches_) forget(&stretch);
}

StepGraphs::Stretch* StepGraphs::stretch(const plan::Plan& plan, size_t begin, size_t end,
                                         const Shape& shape) {
  if (device_ == nullptr || !without_.empty()) return nullptr;
  for (Stretch& stretch : stretches_) {
    if (stretch.plan != &plan || stretch.begin != begin || stretch.end != end) continue;
    if (stretch.shape == shape) return &stretch;
    (void)device_->synchronize(kStream);  // errors of running work are reported where it is awaited
    forget(&stretch);
    stretch.shape = shape;
    stretch.has_run = false;
    return &stretch;
  }
  Stretch& stretch = stretches_.emplace_back();
  stretch.plan = &plan, stretch.begin = begin, stretch.end = end, stretch.shape = shape;
  for (const plan::Segment& segment : plan::segments(plan, begin, end))
    stretch.segments.push_back({segment, nullptr});
  return &stretch;
}

void StepGraphs::forget(Stretch* stretch) {
  for (Segment& segment : stretch->segments) {
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
