// Tests that the thread pool runs every task once, after sleep and without a pause.
#include "engine/device/cpu/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

namespace hawser {
namespace thread_pool_test {

struct Count {
  std::vector<std::atomic<int>> hits;
  std::atomic<bool> worker_in_range{true};
  int workers;
};

void hit(void* arg, int64_t task, int32_t worker) {
  auto& count = *static_cast<Count*>(arg);
  count.hits[static_cast<size_t>(task)].fetch_add(1);
  if (worker < 0 || worker >= count.workers) count.worker_in_range = false;
}

TEST(ThreadPool, EveryTaskRunsOnce) {
  for (int threads : {1, 2, 3, 8}) {
    device::ThreadPool pool(threads);
    for (int64_t tasks : {0, 1, 2, 3, 17, 1000}) {
      for (int repeat = 0; repeat < 20; ++repeat) {
        Count count{std::vector<std::atomic<int>>(static_cast<size_t>(tasks)), true, threads};
        pool.stream().run(&pool.stream(), tasks, hit, &count);
        for (const auto& h : count.hits) ASSERT_EQ(h.load(), 1);
        ASSERT_TRUE(count.worker_in_range);
      }
    }
  }
}

TEST(ThreadPool, WakesAfterSleep) {
  device::ThreadPool pool(3);
  for (int i = 0; i < 5; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    Count count{std::vector<std::atomic<int>>(64), true, 3};
    pool.stream().run(&pool.stream(), 64, hit, &count);
    for (const auto& h : count.hits) ASSERT_EQ(h.load(), 1);
  }
}

TEST(ThreadPool, ManyLoopsBackToBack) {
  device::ThreadPool pool(4);
  for (int i = 0; i < 3000; ++i) {
    Count count{std::vector<std::atomic<int>>(static_cast<size_t>(1 + i % 9)), true, 4};
    pool.stream().run(&pool.stream(), 1 + i % 9, hit, &count);
    for (const auto& h : count.hits) ASSERT_EQ(h.load(), 1);
  }
}

/// Every task waits until all workers have one, so no worker can take another's: task w must run on worker w.
TEST(ThreadPool, EachWorkerBeginsWithItsOwnTasks) {
  constexpr int32_t kThreads = 4;
  struct Begun {
    std::atomic<int32_t> count{0};
    std::atomic<int32_t> worker_of[kThreads];
  };
  device::ThreadPool pool(kThreads);
  for (int repeat = 0; repeat < 20; ++repeat) {
    Begun begun;
    const auto wait_for_all = [](void* arg, int64_t task, int32_t worker) {
      auto& all = *static_cast<Begun*>(arg);
      all.worker_of[task] = worker;
      all.count.fetch_add(1);
      while (all.count.load() < kThreads) std::this_thread::yield();
    };
    pool.stream().run(&pool.stream(), kThreads, wait_for_all, &begun);
    for (int32_t task = 0; task < kThreads; ++task) EXPECT_EQ(begun.worker_of[task].load(), task);
  }
}

/// The calling thread calls the wait function while another worker is busy; the task ends only because of
/// that call.
TEST(ThreadPool, TheCallingThreadCallsTheWaitFunction) {
  struct State {
    std::atomic<int32_t> begun{0};
    std::atomic<bool> waits{false};
  } state;
  device::ThreadPool pool(2);
  pool.set_wait([](void* user) { static_cast<State*>(user)->waits = true; }, &state);
  pool.stream().run(
      &pool.stream(), 2,
      [](void* arg, int64_t, int32_t worker) {
        auto& state = *static_cast<State*>(arg);
        state.begun.fetch_add(1);
        while (state.begun.load() < 2) std::this_thread::yield();
        while (worker == 1 && !state.waits.load()) std::this_thread::yield();
      },
      &state);
  EXPECT_TRUE(state.waits);
}

}  // namespace thread_pool_test
}  // namespace hawser
