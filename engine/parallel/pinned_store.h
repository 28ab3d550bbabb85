// PinnedStore: offloads a device's memory to pinned host memory. Each direction has a stream of its own, so
// that copies overlap with computation and with each other.
#pragma once

#include <memory>
#include <vector>

#include "engine/comm/device/call_marks.h"
#include "engine/device/device.h"
#include "engine/parallel/offload_store.h"

namespace hawser::parallel {

/// Pinned host memory as a space.
class PinnedMemory final : public OutsideMemory {
 public:
  /// `memory` outlives this object.
  explicit PinnedMemory(char* memory) : memory_(memory) {}
  void read(int64_t at, void* to, int64_t bytes) override;
  void write(int64_t at, const void* from, int64_t bytes) override;

 private:
  char* memory_;
};

class PinnedStore final : public OffloadStore {
 public:
  /// `memory` is pinned and outlives the store. `most` copies of a direction may be in progress. Throws the
  /// device's errors.
  PinnedStore(std::shared_ptr<device::Device> device, char* memory, size_t most);
  ~PinnedStore() override;

  uint64_t start(Way way, char* memory, int64_t at, int64_t bytes) override;
  void follow(Way way, uint64_t ticket) override;
  void wait(Way way, uint64_t ticket) override;
  void throw_failure() override {}  // a device reports its errors where its work is awaited
  /// Begin and end are both the time at which the host submitted the copy to the device.
  Span span(Way way, uint64_t ticket) const override;

 private:
  struct Direction {
    device::StreamId stream{};
    comm::Mark reached;            // position of the compute stream when the last copy was submitted
    std::vector<comm::Mark> done;  // a ring indexed by ticket
    std::vector<Span> spans;       // a ring indexed by ticket
    uint64_t started = 0;
  };
  Direction& direction(Way way) { return directions_[way == Way::kIn]; }

  std::shared_ptr<device::Device> device_;
  char* memory_;
  Direction directions_[2];  // out, in
};

}  // namespace hawser::parallel
