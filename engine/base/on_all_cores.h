// Runs independent parts of work on all cores before the first step; its threads end with the call.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <future>
#include <thread>
#include <vector>

namespace hawser {

/// Calls work(0) to work(count - 1), which must not depend on each other. Throws the exception of one of them
/// if any fails.
inline void on_all_cores(int64_t count, const std::function<void(int64_t)>& work) {
  const int64_t workers = std::clamp<int64_t>(std::thread::hardware_concurrency(), 1, count);
  const auto take_turns = [&](int64_t first) {
    for (int64_t i = first; i < count; i += workers) work(i);
  };
  std::vector<std::future<void>> others;
  for (int64_t w = 1; w < workers; ++w) others.push_back(std::async(take_turns, w));
  take_turns(0);
  for (std::future<void>& other : others) other.get();
}

}  // namespace hawser
