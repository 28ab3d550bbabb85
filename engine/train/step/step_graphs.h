// StepGraphs: parts of plans that a device was given once and launches again. A segment (plan/segments.h) is
// hundreds of kernels and copies; noted by the device as a graph (Device::begin_capture), it costs the host
// one call.
//
// What a graph does is fixed: pointers, sizes, and all else that kernels are passed by value. So it serves
// one shape only, and what changes from step to step lies in memory (learning rate, 1/tokens, samples, rows
// of look-ups). The first run of a shape is given as it is, because libraries choose algorithms and load
// kernels then, which no capture may contain; the second is captured.
//
// The graphs' own memory is the device's, outside the arena and the plan: a few KiB for each piece of work.
#pragma once

#include <cstdint>
#include <list>
#include <string>
#include <vector>

#include "engine/device/check.h"
#include "engine/device/device.h"
#include "engine/plan/segments.h"

namespace hawser::train {

/// Of one executor, on its thread. Work in its graphs has ended before it goes.
class StepGraphs {
 public:
  /// Beside the plan, what shapes what the device is given.
  struct Shape {
    int64_t batch = 0, seq = 0;
    bool training = false;
    bool operator==(const Shape&) const = default;
  };
  struct Segment {
    plan::Segment at;
    device::Graph* graph = nullptr;  ///< null: not captured yet
  };
  /// Instructions [begin, end) of a plan, which are run together.
  struct Stretch {
    const plan::Plan* plan = nullptr;
    size_t begin = 0, end = 0;
    Shape shape;
    bool has_run = false;  ///< as a whole, in this shape: what comes now may be captured
    std::vector<Segment> segments;
  };
  struct Counts {
    int64_t captured = 0, launched = 0;
  };

  /// `device`: outlives this; null: nothing is ever captured.
  explicit StepGraphs(device::Device* device) : device_(device) {}
  ~StepGraphs();
  StepGraphs(const StepGraphs&) = delete;
  StepGraphs& operator=(const StepGraphs&) = delete;

  /// Null where nothing is captured. The plan must stay where it is.
  Stretch* stretch(const plan::Plan& plan, size_t begin, size_t end, const Shape& shape);

  /// Runs a segment, whose work give() gives to the compute stream. If the device cannot capture it, it runs
  /// as it is, and nothing is captured from then on: without() says why. Throws what give throws, and the
  /// device's error; then nothing of it has run.
  template <typename Give>
  void run(Segment* segment, Give give) {
    if (segment->graph == nullptr && !capture(segment, give)) return give();
    device::check(*device_, device_->launch(segment->graph, kStream));
    ++counts_.launched;
  }

  /// Why nothing is captured any more; "": nothing went wrong.
  const std::string& without() const { return without_; }
  const Counts& counts() const { return counts_; }

 private:
  static constexpr device::StreamId kStream = device::StreamId::kCompute;

  template <typename Give>
  bool capture(Segment* segment, Give give) {
    if (!begins()) return false;
    try {
      give();
    } catch (...) {
      if (device::Graph* graph = ended()) device_->free_graph(graph);
      throw;
    }
    segment->graph = ended();
    if (segment->graph == nullptr) return false;
    ++counts_.captured;
    return true;
  }
  bool begins();
  device::Graph* ended();
  void gives_up();
  void forget(Stretch* stretch);

  device::Device* device_;
  std::list<Stretch> stretches_;
  std::string without_;
  Counts counts_;
};

}  // namespace hawser::train
