// HostLink: how the host and the memory of a rank's device speak to each other. Where the host can reach that
// memory (the CPU) there is nothing to say: both sides of a value are the same bytes, and nothing is copied.
// Elsewhere the host's side of what goes back and forth in a step is a staging of its own, pinned and
// planned.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/device/check.h"
#include "engine/device/device.h"

namespace hawser::device {

/// Every call throws what the device has to say. In a step nothing is allocated.
class HostLink {
 public:
  explicit HostLink(std::shared_ptr<Device> device);
  ~HostLink();
  HostLink(const HostLink&) = delete;
  HostLink& operator=(const HostLink&) = delete;

  Device& device() const { return *device_; }
  const std::shared_ptr<Device>& shared_device() const { return device_; }
  /// Device memory is the host's to read and write.
  bool in_place() const { return in_place_; }

  // In a step: after all work that the compute stream was given before. Nothing where both pointers are one.

  /// The device sees host[bytes] at `to`; host's bytes stay as they are until wait_sent.
  void send(void* to, const void* host, int64_t bytes);
  /// The host sees from[bytes] at `host` after wait.
  void fetch(void* host, const void* from, int64_t bytes);
  void copy(void* to, const void* from, int64_t bytes);
  void zero(void* to, int64_t bytes);
  /// Returns when the last send has been taken.
  void wait_sent();
  /// Returns when the compute stream has done what it was given. Throws the device's sticky error.
  void wait();

  // Outside of a step: done when the call returns. Any thread.

  void write(void* to, const void* host, int64_t bytes) const;
  void read(void* host, const void* from, int64_t bytes) const;
  /// Makes n f32 values at `to`: fill(host memory, first, count) writes values [first, first + count).
  template <typename Fill>
  void produce(float* to, int64_t n, Fill fill) const;

 private:
  static constexpr int64_t kPiece = int64_t{4} << 20;  // values that produce makes at once

  std::shared_ptr<Device> device_;
  bool in_place_;
  Event* sent_ = nullptr;
  mutable std::mutex mutex_;  // of write and read
};

template <typename Fill>
void HostLink::produce(float* to, int64_t n, Fill fill) const {
  if (in_place_) return fill(to, int64_t{0}, n);
  std::vector<float> piece(static_cast<size_t>(std::min(n, kPiece)));
  for (int64_t first = 0; first < n; first += kPiece) {
    const int64_t count = std::min(kPiece, n - first);
    fill(piece.data(), first, count);
    write(to + first, piece.data(), count * static_cast<int64_t>(sizeof(float)));
  }
}

}  // namespace hawser::device
