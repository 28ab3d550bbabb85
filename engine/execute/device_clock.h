// DeviceClock: a clock that measures work on a device's compute stream with events of the device. The host
// only queues this work, so the host's own clock would measure the queueing.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/device/check.h"
#include "engine/device/device.h"

namespace hawser::train {

/// The clock belongs to the thread that queues the device's work.
class DeviceClock {
 public:
  /// Times in seconds of the host's steady clock.
  struct Span {
    double begin = 0, end = 0;
  };
  static constexpr size_t kMostSpans = 1024;

  /// Creates all events. The device must outlive the clock.
  explicit DeviceClock(device::Device& device);
  ~DeviceClock();
  DeviceClock(const DeviceClock&) = delete;
  DeviceClock& operator=(const DeviceClock&) = delete;

  /// Waits until the stream is idle, relates the device's time to the host's, and drops all spans. Throws the
  /// device's error.
  void start();
  /// The work queued between begin() and end() is one span. There are at most kMostSpans spans until clear().
  void begin() noexcept { record(2 * spans_); }
  void end() noexcept { record(2 * spans_++ + 1); }
  /// Returns span `i` since clear(), after waiting until the device has finished it. Throws the device's
  /// error.
  Span span(size_t i);
  void clear() { spans_ = 0; }

 private:
  DeviceClock(device::Device& device, size_t events) : device_(device), events_(events) {}
  /// Ignores the error of the call, because the stream has it too and every later wait reports it.
  void record(size_t event) noexcept { device_.record(events_[event], device::StreamId::kCompute); }
  double seconds_of(device::Event* event);

  device::Device& device_;
  device::Event* zero_ = nullptr;
  double zero_seconds_ = 0;  ///< the host's time when the device reached zero_
  std::vector<device::Event*> events_;
  size_t spans_ = 0;
};

}  // namespace hawser::train
