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
  const KernelFile quota_file("/sys/fs/cgroup/cpu.max");  // the file has "QUOTA PERIOD" or "max PERIOD"
  const int64_t quota = quota_file.number_after(""), period = quota_file.number_after(" ");
  if (quota > 0 && period > 0)
    n = static_cast<int32_t>(std::min<int64_t>(n, std::max<int64_t>(1, quota / period)));
  return std::max(1, n);
}

ThreadPool::ThreadPool(int32_t threads) {
  stream_ = {{&ThreadPool::run, std::max(1, threads)}, this};
  shares_ = std::vector<Share>(static_cast<size_t>(stream_.base.num_workers));
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
  tasks_.store(tasks, std::memory_order_release);
  fn_.store(fn, std::memory_order_relaxed);
  arg_.store(arg, std::memory_order_relaxed);
  done_.store(0, std::memory_order_relaxed);
  epoch_ += 1;
  for (int32_t w = 0; w < threads(); ++w) open_share(w, first_task(w, tasks));
  wake_.fetch_add(1);
  if (sleepers_.load() > 0) wake_.notify_all();
  take_tasks(0);
  while (done_.load(std::memory_order_acquire) < tasks) {
    cpu_pause();
    if (wait_ != nullptr) wait_(wait_user_);
    if (spins_ == 0) std::this_thread::yield();
  }
  for (int32_t w = 0; w < threads(); ++w) open_share(w, kClosed);
}

void ThreadPool::open_share(int32_t worker, uint64_t next) {
  shares_[static_cast<size_t>(worker)].ticket.store(uint64_t{epoch_} << 32 | next, std::memory_order_release);
}

uint64_t ThreadPool::first_task(int32_t worker, int64_t tasks) const {
  return static_cast<uint64_t>(tasks * worker / threads());
}

/// Runs a worker's own tasks, then helps others with theirs. If the next loop begins meanwhile, the worker
/// takes none of its tasks yet: it returns first and then starts with its own share.
void ThreadPool::take_tasks(int32_t worker) {
  const uint64_t epoch = shares_[static_cast<size_t>(worker)].ticket.load(std::memory_order_acquire) >> 32;
  for (int32_t i = 0; i < threads(); ++i) {
    const int32_t owner = (worker + i) % threads();
    const int64_t ran = take_share(owner, worker, epoch);
    if (ran > 0) done_.fetch_add(ran, std::memory_order_acq_rel);
  }
}

int64_t ThreadPool::take_share(int32_t owner, int32_t worker, uint64_t epoch) {
  std::atomic<uint64_t>& ticket = shares_[static_cast<size_t>(owner)].ticket;
  int64_t ran = 0;
  for (uint64_t at = ticket.load(std::memory_order_acquire);;) {
    const uint64_t task = at & kClosed;
    if (at >> 32 != epoch || task == kClosed ||
        task >= first_task(owner + 1, tasks_.load(std::memory_order_acquire)))
      return ran;
    if (!ticket.compare_exchange_weak(at, at + 1, std::memory_order_acq_rel, std::memory_order_acquire))
      continue;
    // The loop cannot end before this task is counted, so `fn_` and `arg_` stay valid.
    fn_.load(std::memory_order_relaxed)(arg_.load(std::memory_order_relaxed), static_cast<int64_t>(task),
                                        worker);
    ran += 1;
    at = ticket.load(std::memory_order_acquire);
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
