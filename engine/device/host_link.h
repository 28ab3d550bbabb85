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

/// Every call throws the device's errors. In a step nothing is allocated.
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

  // In a step: after all earlier work of the compute stream. Nothing is done if both pointers are equal.

  /// The device sees host[bytes] at `to`; host's bytes stay as they are until wait_sent.
  void send(void* to, const void* host, int64_t bytes);
  /// The host sees from[bytes] at `host` after wait.
  void fetch(void* host, const void* from, int64_t bytes);
  void copy(void* to, const void* from, int64_t bytes);
  void zero(void* to, int64_t bytes);
  /// Returns when the last send has been taken.
  void wait_sent();
  /// Returns when the compute stream is idle. Throws the device's sticky error.
  void wait();

  // Outside of a step: done when the call returns. Any thread.

  void write(void* to, const void* host, int64_t bytes) const;
  void read(void* host, const void* from, int64_t bytes) const;

 private:
  std::shared_ptr<Device> device_;
  bool in_place_;
  Event* sent_ = nullptr;
  mutable std::mutex mutex_;  // of write and read
};

}  // namespace hawser::device
