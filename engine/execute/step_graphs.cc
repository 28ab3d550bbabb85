#include "engine/execute/step_graphs.h"

#include <fmt/format.h>

namespace hawser::train {

std::string no_graphs_because(const char* why) { return fmt::format("no CUDA graphs: {}", why); }

StepGraphs::~StepGraphs() {
  for (Stretch& stretch : stretches_) forget(&stretch);
}

StepGraphs::Stretch* StepGraphs::stretch(const plan::Plan& plan, size_t begin, size_t end,
                                         const Shape& shape) {
  if (plan.no_graphs != plan::NoGraphs::kNone || !without_.empty()) return nullptr;
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
  for (const plan::Segment& segment : plan.segments)
    if (segment.begin >= begin && segment.end <= end) stretch.segments.push_back({segment, nullptr, nullptr});
  return &stretch;
}

void StepGraphs::forget(Stretch* stretch) {
  for (Segment& segment : stretch->segments) forget(&segment);
}

void StepGraphs::forget(Segment* segment) {
  if (segment->graph != nullptr) device_->free_graph(segment->graph);
  segment->graph = nullptr;
  segment->calls.reset();
}

bool StepGraphs::begins() {
  if (!without_.empty()) return false;
  if (device_->begin_capture(kStream) != 0) return cannot(), false;
  if (exchanges_) exchanges_->begin_capture();
  return true;
}

bool StepGraphs::ended(Segment* segment) {
  if (exchanges_) segment->calls = exchanges_->end_capture();
  if (device_->end_capture(kStream, &segment->graph) != 0) return cannot(), false;
  ++counts_.captured;
  return true;
}

void StepGraphs::cannot() {
  give_up(fmt::format("the device could not capture a step ({})", device_->message()).c_str());
}

void StepGraphs::give_up(const char* why) {
  if (without_.empty()) without_ = no_graphs_because(why);
}

}  // namespace hawser::train
