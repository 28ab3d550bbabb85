// DiskStore: copies a rank's host memory to its file and back (staged_disk_store.h does so for device
// memory). A few threads read and write the file.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/parallel/offload_file.h"
#include "engine/parallel/offload_store.h"

namespace hawser::parallel {

/// One thread per direction may call it.
class DiskStore final : public OffloadStore {
 public:
  /// `most` copies of a direction may be in progress. Throws kUnavailable if no thread can be started.
  DiskStore(std::shared_ptr<OffloadFile> file, size_t most);
  ~DiskStore() override;

  uint64_t start(Way way, char* memory, int64_t at, int64_t bytes) override;
  void follow(Way way, uint64_t ticket) override { wait(way, ticket); }
  void wait(Way way, uint64_t ticket) override;
  void throw_failure() override { wait(Way::kIn, 0); }
  Span span(Way way, uint64_t ticket) const override;

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

  Queue& queue(Way way) { return queues_[way == Way::kIn]; }
  const Queue& queue(Way way) const { return queues_[way == Way::kIn]; }
  void serve(Queue* queue, bool writes) noexcept;
  void stop() noexcept;

  std::shared_ptr<OffloadFile> file_;
  bool stops_ = false;
  mutable std::mutex mutex_;
  std::condition_variable work_, done_;
  Queue queues_[2];  // out, in
  int error_ = 0;    // errno of the first failure that wait has not thrown
  bool failed_writing_ = false;
  int64_t failed_at_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace hawser::parallel
