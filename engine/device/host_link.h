// HostLink: copies between the host and the memory of a rank's device. If the host can reach that memory
// (the CPU), both sides of a value are the same bytes and nothing is copied. Else the host's side is a
// staging buffer, pinned and of planned size.
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
  /// Whether the host can read and write device memory.
  bool in_place() const { return in_place_; }

  // In a step: ordered after all earlier work of the compute stream. Nothing is done if both pointers are
  // equal.

  /// Sends host[bytes] to `to`. The host must not change its bytes until wait_sent.
  void send(void* to, const void* host, int64_t bytes);
  /// Fetches from[bytes] to `host`, valid after wait.
  void fetch(void* host, const void* from, int64_t bytes);
  void copy(void* to, const void* from, int64_t bytes);
  void zero(void* to, int64_t bytes);
  /// Waits until the last send has been read.
  void wait_sent();
  /// Waits until the compute stream is idle. Throws the device's sticky error.
  void wait();

  // Outside of a step: complete when the call returns. Any thread.

  void write(void* to, const void* host, int64_t bytes) const;
  void read(void* host, const void* from, int64_t bytes) const;

 private:
  std::shared_ptr<Device> device_;
  bool in_place_;
  Event* sent_ = nullptr;
  mutable std::mutex mutex_;  // guards write and read
};

}  // namespace hawser::device
