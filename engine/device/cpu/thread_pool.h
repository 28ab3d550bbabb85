// ThreadPool: the engine's threads, which run the CPU stream's loops. The calling thread is worker 0.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "engine/base/stream.h"

namespace hawser::device {

/// Number of threads that this process may keep busy, by affinity mask and cgroup CPU quota.
int32_t default_threads();

/// Runs one loop at a time, started by one thread at a time. Worker w of W starts with its own share of the T
/// tasks, [w T / W, (w + 1) T / W), and then helps the other workers. Loops over the same rows thus mostly
/// find them in the caches of the same worker. Results must not depend on which worker runs a task. Between
/// loops, workers spin briefly (unless threads outnumber cores) and then sleep. A loop never waits for a
/// worker that wakes late. The workers block all signals.
class ThreadPool {
 public:
  /// Throws kUnavailable if a thread cannot be created; threads created before are then joined.
  explicit ThreadPool(int32_t threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  Stream& stream() { return stream_.base; }
  int32_t threads() const { return stream_.base.num_workers; }
  /// Sets a function that the calling thread calls repeatedly while it waits for the other workers' last
  /// tasks. It must not throw. Null: none.
  void set_wait(void (*wait)(void* user), void* user) {
    wait_ = wait;
    wait_user_ = user;
  }

 private:
  struct PoolStream {
    Stream base;
    ThreadPool* pool;
  };
  static void run(Stream* stream, int64_t tasks, TaskFn fn, void* arg);
  void loop(int64_t tasks, TaskFn fn, void* arg);
  void open_share(int32_t worker, uint64_t next);
  uint64_t first_task(int32_t worker, int64_t tasks) const;
  void take_tasks(int32_t worker);
  int64_t take_share(int32_t owner, int32_t worker, uint64_t epoch);
  void worker_main(int32_t worker);
  void stop();

  /// (epoch, next task) of one worker's own tasks; the low half is kClosed between loops. The loop's
  /// description changes only while all shares are closed. A worker whose compare-exchange on (epoch, next)
  /// succeeds has therefore read the number of tasks of that epoch.
  struct alignas(64) Share {
    std::atomic<uint64_t> ticket{kClosed};
  };
  static constexpr uint64_t kClosed = 0xFFFFFFFFull;
  std::vector<Share> shares_;
  uint32_t epoch_ = 0;
  std::atomic<int64_t> tasks_{0};
  std::atomic<TaskFn> fn_{nullptr};
  std::atomic<void*> arg_{nullptr};
  std::atomic<int64_t> done_{0};
  std::atomic<uint32_t> wake_{0};
  std::atomic<int32_t> sleepers_{0};
  std::atomic<bool> stop_{false};
  int32_t spins_ = 0;
  void (*wait_)(void* user) = nullptr;
  void* wait_user_ = nullptr;
  PoolStream stream_;
  std::vector<std::thread> threads_;
};

}  // namespace hawser::device
