// StepGraphs: captures parts of a plan as graphs and launches them in later steps. A segment
// (plan/segments.h) is hundreds of kernels and copies; as a graph (Device::begin_capture) it costs the host
// one call.
//
// A graph fixes pointers, sizes and all other kernel arguments that are passed by value. It therefore serves
// one shape only, and values that change from step to step are in memory (learning rate, 1/tokens, samples,
// rows of look-ups). The first run of a shape is not captured, because libraries choose algorithms and load
// kernels then, which a capture must not contain. The second run is captured.
//
// Graphs use device memory outside the arena and the plan: a few KiB for each kernel or copy.
#pragma once

#include <cstdint>
#include <list>
#include <string>
#include <vector>

#include "engine/comm/comm.h"
#include "engine/device/check.h"
#include "engine/device/device.h"
#include "engine/plan/plan.h"

namespace hawser::train {

/// Returns the text of StepGraphs::without.
std::string no_graphs_because(const char* why);

/// Belongs to one executor and its thread. The work of its graphs must be finished before it is destroyed.
class StepGraphs {
 public:
  /// What determines the device's work, in addition to the plan.
  struct Shape {
    int64_t batch = 0, seq = 0;
    bool training = false, weights = false;
    bool operator==(const Shape&) const = default;
  };
  struct Segment {
    plan::Segment at;
    device::Graph* graph = nullptr;  ///< null until captured
    comm::CallsOfGraph calls;        ///< calls between devices that the graph contains
  };
  /// Instructions [begin, end) of a plan, which run together.
  struct CapturedRange {
    const plan::Plan* plan = nullptr;
    size_t begin = 0, end = 0;
    Shape shape;
    bool has_run = false;  ///< it has run completely in this shape, so the next run may be captured
    std::vector<Segment> segments;
    bool captured() const { return segments.empty() || segments.front().graph != nullptr; }
  };
  struct Counts {
    int64_t captured = 0, launched = 0;
  };

  /// The arguments must outlive this object. `exchanges` carries the calls between devices that segments
  /// contain; null if they contain none.
  StepGraphs(device::Device* device, comm::DeviceComm* exchanges) : device_(device), exchanges_(exchanges) {}
  ~StepGraphs();
  StepGraphs(const StepGraphs&) = delete;
  StepGraphs& operator=(const StepGraphs&) = delete;

  /// Returns null if nothing is captured, which Plan::no_graphs or an earlier failure decides. The plan must
  /// not move.
  CapturedRange* range(const plan::Plan& plan, size_t begin, size_t end, const Shape& shape);

  /// Runs a segment: give() submits its work to the compute stream. If the device cannot capture it, it runs
  /// directly, nothing is captured from then on, and without() says why. Rethrows errors of give and of the
  /// device; then none of the work has run.
  template <typename Give>
  void run(Segment* segment, Give give) {
    if (segment->graph == nullptr && !capture(segment, give)) return give();
    if (exchanges_) exchanges_->launches(*segment->calls);
    device::check(*device_, device_->launch(segment->graph, kStream));
    if (exchanges_) exchanges_->launched(*segment->calls);
    ++counts_.launched;
  }
  /// Captures the segment without running it. Returns false if the device cannot; then nothing is captured
  /// from then on. Rethrows errors of give.
  template <typename Give>
  bool capture(Segment* segment, Give give) {
    if (!begins()) return false;
    try {
      give();
    } catch (...) {
      (void)ended(segment);
      forget(segment);
      throw;
    }
    return ended(segment);
  }
  /// Frees all graphs, also while their work runs. Call it before the communicators that they use are closed,
  /// because NCCL waits for graphs of its calls when it closes one.
  void free_all();
  /// From now on, captures nothing and launches no graph. If there is an earlier reason, it stays.
  void give_up(const char* why);

  /// Returns why capturing has stopped; "" if it has not.
  const std::string& without() const { return without_; }
  const Counts& counts() const { return counts_; }

 private:
  static constexpr device::StreamId kStream = device::StreamId::kCompute;

  bool begins();
  bool ended(Segment* segment);
  void cannot();
  void forget(CapturedRange* range);
  void forget(Segment* segment);

  device::Device* device_;
  comm::DeviceComm* exchanges_;
  std::list<CapturedRange> ranges_;
  std::string without_;
  Counts counts_;
};

}  // namespace hawser::train
