// Runs ranks as threads of the test: spawn_ranks(4, [](comm::RankComm& rank) { ... }).
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/comm/comm.h"
#include "kernels/include/levels.h"

namespace hawser::testing {

/// Returns the options that tests use: this machine's kernels, 20 s.
inline comm::CommOptions test_comm_options() {
  comm::CommOptions options;
  options.timeout_seconds = 20;
  options.kernels = &kernels::cpu_kernels(kernels::best_cpu_level());
  return options;
}

/// Runs fn on one thread for each local rank of `comm`. A rank that throws aborts the others; rethrows the
/// first error.
inline void spawn_ranks(comm::Comm& comm, const std::function<void(comm::RankComm&)>& fn,
                        const comm::CommOptions& options = test_comm_options()) {
  std::mutex mutex;
  std::exception_ptr first;
  const auto run_rank = [&](int32_t rank) {
    std::unique_ptr<comm::RankComm> end;
    try {
      end = comm.connect(rank, options);
      fn(*end);
    } catch (const std::exception& error) {
      {
        const std::lock_guard lock(mutex);
        if (first == nullptr) first = std::current_exception();
      }
      if (end != nullptr) end->abort(Error(Code::kAborted, error.what()));
    }
  };
  std::vector<std::thread> threads;
  for (const int32_t rank : comm.local_ranks()) threads.emplace_back(run_rank, rank);
  for (std::thread& thread : threads) thread.join();
  if (first != nullptr) std::rethrow_exception(first);
}

/// Likewise, over a local Comm of `ranks` threads.
inline void spawn_ranks(int32_t ranks, const std::function<void(comm::RankComm&)>& fn,
                        const comm::CommOptions& options = test_comm_options()) {
  spawn_ranks(*comm::make_local(ranks), fn, options);
}

/// Returns the group of all ranks.
inline std::unique_ptr<comm::ProcessGroup> world_group(comm::RankComm& rank) {
  std::vector<int32_t> members;
  for (int32_t r = 0; r < rank.world_size(); ++r) members.push_back(r);
  return rank.make_group(std::move(members), "world");
}

}  // namespace hawser::testing
