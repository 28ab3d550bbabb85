// Arena: the one block of memory of a rank, sized by the memory plan before anything runs.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "engine/device/cpu/host_memory.h"
#include "engine/device/device.h"

namespace hawser::device {

/// Zeroed memory, freed with the last reference. Views hold references, and the arena keeps its device alive.
/// Under AddressSanitizer, ranges of it can be poisoned.
class Arena {
 public:
  // Each function throws kOutOfMemory with the needed and the available bytes. `bytes` may be 0.

  /// Creates an arena in host memory, by map_memory.
  static std::shared_ptr<Arena> create(int64_t bytes);
  /// Creates an arena in device memory.
  static std::shared_ptr<Arena> create(std::shared_ptr<Device> device, int64_t bytes);
  /// Creates an arena in device memory that peer links can register, or else as `create`.
  static std::shared_ptr<Arena> create_for_peers(std::shared_ptr<Device> device, int64_t bytes);
  /// Creates an arena in host memory that is pinned for copies to and from a device.
  static std::shared_ptr<Arena> create_pinned(std::shared_ptr<Device> device, int64_t bytes);

  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  char* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  bool is_for_peers() const { return source_ == Source::kPeers; }
  /// Why create_for_peers could not get memory that peer links can register; "" if it could.
  const std::string& without_peers() const { return without_peers_; }

 private:
  enum class Source : uint8_t { kHost, kDevice, kPeers, kPinned };
  Arena(std::shared_ptr<Device> device, Source source) : device_(std::move(device)), source_(source) {}
  void take(void* data, int64_t bytes) { data_ = static_cast<char*>(data), bytes_ = bytes; }

  std::shared_ptr<Device> device_;
  Source source_;
  char* data_ = nullptr;
  int64_t bytes_ = 0;
  std::string without_peers_;
};

/// Marks [p, p + bytes) unusable or usable for AddressSanitizer; no-ops in other builds. The build chooses
/// poison_asan.cc or poison_none.cc.
void poison(void* p, int64_t bytes);
void unpoison(void* p, int64_t bytes);

}  // namespace hawser::device
