#include "engine/device/cpu/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <system_error>

#include "engine/base/error.h"
#include "engine/base/signals_blocked.h"
#include "engine/device/cpu/kernel_file.h"
#include "engine/device/cpu/pause.h"

namespace hawser::device {
int32_t default_threads() {
  cpu_set_t set;
  CPU_ZERO(&set);
  int32_t n = sched_getaffinity(0, sizeof set, &set) == 0
                  ? CPU_COUNT(&set)
                  : static_cast<int32_t>(std::thread::hardware_concurrency());
  const KernelFile quota_file("/sys/fs/cgroup/cpu.max");  // "QUOTA PERIOD" or "max PERIOD"
  const int64_t quota = quota_file.number_after(""), period = quota_file.number_after(" ");
  if (quota > 0 && period > 0)
    n = static_cast<int32_t>(std::min<int64_t>(n, std::max<int64_t>(1, quota / period)));
  return std::max(1, n);
}

ThreadPool::ThreadPool(int32_t threads) {
  stream_ = {{&ThreadPool::run, std::max(1, threads)}, this};
  spins_ = threads <= default_threads() ? 20000 : 0;
  const SignalsBlocked blocked;
  try {
    for (int32_t worker = 1; worker < threads; ++worker)
      threads_.emplace_back([this, worker] { worker_main(worker); });
  } catch (const std::system_error& e) {
    const size_t made = threads_.size();
    stop();
    fail(Code::kUnavailable, "cannot make thread {} of {}: {}; lower /cpu/threads or the limit on threads",
         made + 2, threads, e.what());
  } catch (...) {
    stop();
    throw;
  }
}

ThreadPool::~ThreadPool() { stop(); }

void ThreadPool::stop() {
  stop_.store(true);
  wake_.fetch_add(1);
  wake_.notify_all();
  for (std::thread& t : threads_) t.join();
  threads_.clear();
}

void ThreadPool::run(Stream* stream, int64_t tasks, TaskFn fn, void* arg) {
  reinterpret_cast<PoolStream*>(stream)->pool->loop(tasks, fn, arg);
}

void ThreadPool::loop(int64_t tasks, TaskFn fn, void* arg) {
  if (tasks <= 1 || threads_.empty()) {
    for (int64_t t = 0; t < tasks; ++t) fn(arg, t, 0);
    return;
  }
  const uint64_t epoch = (ticket_.load(std::memory_order_relaxed) >> 32) + 1;
  tasks_.store(tasks, std::memory_order_relaxed);
  fn_.store(fn, std::memory_order_relaxed);
  arg_.store(arg, std::memory_order_relaxed);
  done_.store(0, std::memory_order_relaxed);
  ticket_.store(epoch << 32, std::memory_order_release);
  wake_.fetch_add(1);
  if (sleepers_.load() > 0) wake_.notify_all();
  take_tasks(0);
  while (done_.load(std::memory_order_acquire) < tasks) {
    cpu_pause();
    if (spins_ == 0) std::this_thread::yield();
  }
  ticket_.store((epoch << 32) | kClosed, std::memory_order_release);
}

void ThreadPool::take_tasks(int32_t worker) {
  uint64_t ticket = ticket_.load(std::memory_order_acquire);
  const uint64_t epoch = ticket >> 32;
  const int64_t tasks = tasks_.load(std::memory_order_relaxed);
  const TaskFn fn = fn_.load(std::memory_order_relaxed);
  void* const arg = arg_.load(std::memory_order_relaxed);
  while (ticket >> 32 == epoch && (ticket & kClosed) != kClosed &&
         static_cast<int64_t>(ticket & kClosed) < tasks) {
    if (!ticket_.compare_exchange_weak(ticket, ticket + 1, std::memory_order_acq_rel,
                                       std::memory_order_acquire))
      continue;
    fn(arg, static_cast<int64_t>(ticket & kClosed), worker);
    done_.fetch_add(1, std::memory_order_acq_rel);
    ticket = ticket_.load(std::memory_order_acquire);
  }
}

void ThreadPool::worker_main(int32_t worker) {
  uint32_t seen = 0;
  while (!stop_.load()) {
    uint32_t now = wake_.load();
    for (int32_t i = 0; now == seen && i < spins_; ++i) {
      cpu_pause();
      now = wake_.load(std::memory_order_acquire);
    }
    if (now == seen) {
      sleepers_.fetch_add(1);
      wake_.wait(seen);
      sleepers_.fetch_sub(1);
      continue;
    }
    seen = now;
    if (!stop_.load()) take_tasks(worker);
  }
}

}  // namespace hawser::device
