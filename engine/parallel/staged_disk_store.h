// StagedDiskStore: a DiskStore for a rank on a device whose memory the host cannot access. Each direction has
// a thread and a stream of its own, which copy through pinned memory for one slot.
#pragma once

#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "engine/comm/device/call_marks.h"
#include "engine/device/device.h"
#include "engine/parallel/disk_store.h"

namespace hawser::parallel {

class StagedDiskStore final : public OffloadStore {
 public:
  /// `staging` is pinned, has staging_bytes(largest_move), and outlives the store. The other arguments and
  /// errors are those of DiskStore; also throws the device's errors.
  StagedDiskStore(std::shared_ptr<device::Device> device, std::shared_ptr<OffloadFile> file, size_t most,
                  char* staging, int64_t largest_move);
  /// Returns the bytes for one slot per direction, and for aligning them.
  static int64_t staging_bytes(int64_t largest_move) { return 2 * largest_move + kOffloadPage; }
  ~StagedDiskStore() override;

  uint64_t start(Way way, char* memory, int64_t at, int64_t bytes) override;
  /// The host waits, so all later work of the compute lane comes after the copy.
  void follow(Way way, uint64_t ticket) override { wait(way, ticket); }
  void wait(Way way, uint64_t ticket) override;
  void throw_failure() override { wait(Way::kIn, 0); }
  Span span(Way way, uint64_t ticket) const override;

 private:
  struct Copy {
    char* memory = nullptr;
    int64_t at = 0, bytes = 0;
    Span span;
    comm::Mark reached;  // position of the compute stream when the copy was submitted
  };
  /// The copies of one direction; guarded by mutex_.
  struct Direction {
    device::StreamId stream{};
    char* staging = nullptr;
    std::vector<Copy> copies;  // a ring by ticket
    uint64_t started = 0, done = 0;
    std::thread thread;
  };

  Direction& direction(Way way) { return directions_[way == Way::kIn]; }
  void serve(Way way) noexcept;
  void copy(Way way, const Direction& d, const Copy& one);
  void stop() noexcept;

  std::shared_ptr<device::Device> device_;
  DiskStore disk_;
  mutable std::mutex mutex_;
  std::condition_variable work_, done_;
  bool stops_ = false;
  std::exception_ptr failure_;  // the first failure that wait has not thrown
  Direction directions_[2];     // out, in
};

}  // namespace hawser::parallel
