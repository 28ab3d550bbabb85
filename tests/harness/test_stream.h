// Streams for kernel tests. SerialStream runs tasks one after another in a chosen order and assigns them to
// workers in turn; ThreadStream runs them on real threads. Kernels must give the same bits on both, for every
// order and number of workers.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "engine/base/stream.h"

namespace hawser::testing {

enum class TaskOrder { kAscending, kDescending, kShuffled };

class SerialStream : public Stream {
 public:
  explicit SerialStream(int32_t workers = 1, TaskOrder order = TaskOrder::kAscending)
      : Stream{&SerialStream::run_tasks, workers}, order_(order) {}

  /// Number of calls of run, which shows what a kernel costs in barriers.
  int64_t runs() const { return runs_; }

 private:
  static void run_tasks(Stream* self, int64_t tasks, TaskFn fn, void* arg) {
    auto& stream = *static_cast<SerialStream*>(self);
    ++stream.runs_;
    std::vector<int64_t> order(static_cast<size_t>(tasks));
    std::iota(order.begin(), order.end(), 0);
    if (stream.order_ == TaskOrder::kDescending) std::reverse(order.begin(), order.end());
    if (stream.order_ == TaskOrder::kShuffled) {
      std::shuffle(order.begin(), order.end(), std::mt19937(static_cast<uint32_t>(stream.runs_)));
    }
    int32_t worker = 0;
    for (const int64_t task : order) {
      fn(arg, task, worker);
      worker = (worker + 1) % stream.num_workers;
    }
  }

  TaskOrder order_;
  int64_t runs_ = 0;
};

class ThreadStream : public Stream {
 public:
  explicit ThreadStream(int32_t workers) : Stream{&ThreadStream::run_tasks, workers} {}

 private:
  static void run_tasks(Stream* self, int64_t tasks, TaskFn fn, void* arg) {
    std::atomic<int64_t> next{0};
    const auto work = [&](int32_t worker) {
      for (int64_t task; (task = next.fetch_add(1)) < tasks;) fn(arg, task, worker);
    };
    std::vector<std::thread> threads;
    for (int32_t worker = 1; worker < self->num_workers; ++worker) threads.emplace_back(work, worker);
    work(0);
    for (std::thread& thread : threads) thread.join();
  }
};

}  // namespace hawser::testing
