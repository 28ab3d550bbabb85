// PinnedStore: offloads a device's memory to pinned host memory. Each direction has a stream of its own, so
// that copies overlap with computation and with each other.
#pragma once

#include <memory>
#include <vector>

#include "engine/comm/device/call_marks.h"
#include "engine/device/device.h"
#include "engine/parallel/offload_store.h"

namespace hawser::parallel {

class PinnedStore final : public OffloadStore {
 public:
  /// `memory` is pinned and outlives the store. `most` copies of a lane may be in progress. Throws the
  /// device's errors.
  PinnedStore(std::shared_ptr<device::Device> device, char* memory, size_t most);
  ~PinnedStore() override;

  uint64_t start(plan::Lane lane, char* memory, int64_t at, int64_t bytes) override;
  void follow(plan::Lane lane, uint64_t ticket) override;
  void wait(plan::Lane lane, uint64_t ticket) override;
  /// Begin and end are both the time at which the host submitted the copy to the device.
  Span span(plan::Lane lane, uint64_t ticket) const override;

 private:
  struct Direction {
    device::StreamId stream{};
    comm::Mark reached;            // position of the compute stream when the last copy was submitted
    std::vector<comm::Mark> done;  // a ring indexed by ticket
    std::vector<Span> spans;       // a ring indexed by ticket
    uint64_t started = 0;
  };
  Direction& direction(plan::Lane lane) { return directions_[lane == plan::Lane::kFetch]; }

  std::shared_ptr<device::Device> device_;
  char* memory_;
  Direction directions_[2];  // out, in
};

}  // namespace hawser::parallel
