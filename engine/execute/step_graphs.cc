#include "engine/execute/step_graphs.h"

#include <fmt/format.h>

namespace hawser::train {

std::string no_graphs_because(const char* why) { return fmt::format("no CUDA graphs: {}", why); }

StepGraphs::~StepGraphs() { free_all(); }

void StepGraphs::free_all() {
  for (CapturedRange& range : ranges_) forget(&range);
}

StepGraphs::CapturedRange* StepGraphs::range(const plan::Plan& plan, size_t begin, size_t end,
                                             const Shape& shape) {
  if (plan.no_graphs != plan::NoGraphs::kNone || !without_.empty()) return nullptr;
  for (CapturedRange& range : ranges_) {
    if (range.plan != &plan || range.begin != begin || range.end != end) continue;
    if (range.shape == shape) return &range;
    (void)device_->synchronize(kStream);  // errors of running work are reported where it is awaited
    forget(&range);
    range.shape = shape;
    range.has_run = false;
    return &range;
  }
  CapturedRange& range = ranges_.emplace_back();
  range.plan = &plan, range.begin = begin, range.end = end, range.shape = shape;
  for (const plan::Segment& segment : plan.segments)
    if (segment.begin >= begin && segment.end <= end) range.segments.push_back({segment, nullptr, nullptr});
  return &range;
}

void StepGraphs::forget(CapturedRange* range) {
  for (Segment& segment : range->segments) forget(&segment);
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
