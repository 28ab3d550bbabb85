// DiskStore: stores a rank's offloaded host memory in an unnamed file (staged_disk_store.h does so for device
// memory). A few threads read and write the file, bypassing the page cache if the file system allows it.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "engine/parallel/offload_store.h"

namespace hawser::parallel {

/// One thread per lane may call it.
class DiskStore final : public OffloadStore {
 public:
  /// Reserves `bytes` in a new unnamed file of `folder`, which ends with this object or the process. `most`
  /// copies of a lane may be in progress. Throws kIo or kPermission (folder, reason), kNoSpace if the disk
  /// has less, kUnavailable if no thread can be started.
  DiskStore(const std::string& folder, int64_t bytes, size_t most);
  ~DiskStore() override;

  uint64_t start(plan::Lane lane, char* memory, int64_t at, int64_t bytes) override;
  void follow(plan::Lane lane, uint64_t ticket) override { wait(lane, ticket); }
  void wait(plan::Lane lane, uint64_t ticket) override;
  Span span(plan::Lane lane, uint64_t ticket) const override;
  /// True if reads and writes bypass the page cache.
  bool direct() const { return direct_; }

 private:
  struct Copy {
    char* memory = nullptr;
    int64_t at = 0, bytes = 0;
    int64_t taken = 0, left = 0;  // bytes that threads have taken, and bytes that are not done
    Span span;
  };
  /// The copies of one direction; guarded by mutex_.
  struct Queue {
    std::vector<Copy> copies;  // a ring by ticket
    uint64_t started = 0, next = 1,
             done = 0;  // tickets: newest; first with bytes to take; all up to it are done
    Copy& of(uint64_t ticket) { return copies[ticket % copies.size()]; }
    const Copy& of(uint64_t ticket) const { return copies[ticket % copies.size()]; }
  };
  struct Piece {
    char* memory;
    int64_t at, bytes;
  };

  void open(const std::string& folder, int64_t bytes);
  Queue& queue(plan::Lane lane) { return queues_[lane == plan::Lane::kFetch]; }
  const Queue& queue(plan::Lane lane) const { return queues_[lane == plan::Lane::kFetch]; }
  void serve(Queue* queue, bool writes) noexcept;
  bool copy(const Piece& piece, bool writes, char* page) noexcept;
  bool transfer(const Piece& piece, bool writes) noexcept;
  void stop() noexcept;

  std::string folder_;
  int file_ = -1;
  bool direct_ = false, stops_ = false;
  mutable std::mutex mutex_;
  std::condition_variable work_, done_;
  Queue queues_[2];  // out, in
  int error_ = 0;    // errno of the first failure
  bool failed_writing_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace hawser::parallel
