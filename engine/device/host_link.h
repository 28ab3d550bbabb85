// HostLink: copies between the host and the memory of a rank's device. If the host can access that memory
// (the CPU), both sides of a value are the same bytes, and nothing is copied. Otherwise the host's side is a
// pinned staging buffer of planned size.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "engine/device/check.h"
#include "engine/device/device.h"

namespace hawser::device {

/// Every call throws the device's errors. Calls in a step allocate nothing.
class HostLink {
 public:
  explicit HostLink(std::shared_ptr<Device> device);
  ~HostLink();
  HostLink(const HostLink&) = delete;
  HostLink& operator=(const HostLink&) = delete;

  Device& device() const { return *device_; }
  const std::shared_ptr<Device>& shared_device() const { return device_; }
  /// True if the host can read and write device memory.
  bool in_place() const { return in_place_; }

  // Calls in a step. They are ordered after all earlier work of the compute stream, and do nothing if both
  // pointers are equal.

  /// Copies host[bytes] to `to` on the device. The host must not change these bytes before wait_sent returns.
  void send(void* to, const void* host, int64_t bytes);
  /// Copies from[bytes] to `host`, which is valid after wait.
  void fetch(void* host, const void* from, int64_t bytes);
  void copy(void* to, const void* from, int64_t bytes);
  void zero(void* to, int64_t bytes);
  /// Waits until the last send has read its bytes.
  void wait_sent();
  /// Waits until the compute stream is idle. Throws the device's sticky error.
  void wait();

  // Calls outside of a step. They are complete when they return, and any thread may make them.

  void write(void* to, const void* host, int64_t bytes) const;
  void read(void* host, const void* from, int64_t bytes) const;

 private:
  std::shared_ptr<Device> device_;
  bool in_place_;
  Event* sent_ = nullptr;
  mutable std::mutex mutex_;  // guards write and read
};

}  // namespace hawser::device
