// DeviceClock: when work on a device's compute stream began and ended, by events of the device. The host only
// queues that work, so its own clock would measure the queueing.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/device/check.h"
#include "engine/device/device.h"

namespace hawser::train {

/// For the thread that queues the device's work.
class DeviceClock {
 public:
  /// Seconds of the host's steady clock.
  struct Span {
    double begin = 0, end = 0;
  };
  static constexpr size_t kMostSpans = 1024;

  /// Makes all events. The device must outlive the clock.
  explicit DeviceClock(device::Device& device);
  ~DeviceClock();
  DeviceClock(const DeviceClock&) = delete;
  DeviceClock& operator=(const DeviceClock&) = delete;

  /// Ties the device's time to the host's, once the stream is idle, and drops all spans. Throws the device's error.
  void start();
  /// Work queued between the two calls is one span, at most kMostSpans until clear().
  void begin() noexcept { record(2 * spans_); }
  void end() noexcept { record(2 * spans_++ + 1); }
  /// Span `i` since clear(), once the device has done it. Throws the device's error.
  Span span(size_t i);
  void clear() { spans_ = 0; }

 private:
  DeviceClock(device::Device& device, size_t events) : device_(device), events_(events) {}
  /// An error of this call is also the stream's, which every later wait reports.
  void record(size_t event) noexcept { device_.record(events_[event], device::StreamId::kCompute); }
  double seconds_of(device::Event* event);

  device::Device& device_;
  device::Event* zero_ = nullptr;
  double zero_seconds_ = 0;  ///< of the host, when the device reached zero_
  std::vector<device::Event*> events_;
  size_t spans_ = 0;
};

}  // namespace hawser::train
