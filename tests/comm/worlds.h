// Worlds: runs the same cases over different transports. A world runs fn on one thread for each rank.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/comm/comm.h"

namespace hawser::testing {

using RankFn = std::function<void(comm::RankComm&)>;

struct WorldKind {
  const char* name;
  /// Returns Comms that together have the ranks 0 to n - 1.
  std::vector<std::shared_ptr<comm::Comm>> (*make)(int32_t ranks);
  std::vector<int32_t> sizes;  ///< sizes of the worlds on which every operation is tested
};

/// Returns the transports over which a test binary runs its cases (kinds_*.cc).
const std::vector<WorldKind>& world_kinds();

std::vector<std::shared_ptr<comm::Comm>> local_world(int32_t ranks);
/// Creates host transports over queues in memory, whose sends return at once.
std::vector<std::shared_ptr<comm::Comm>> memory_world(int32_t ranks);
/// Creates a memory_world in which `sent` counts the messages of all ranks; `sent` must outlive the world.
std::vector<std::shared_ptr<comm::Comm>> counted_world(int32_t ranks, std::atomic<int64_t>& sent);
/// Creates a memory_world in which all sends above kEagerBytes wait for their receiver.
std::vector<std::shared_ptr<comm::Comm>> synchronous_world(int32_t ranks);

/// Runs fn on each rank in its own thread. Returns each rank's error, nullptr for none.
std::vector<std::exception_ptr> run_world(const std::vector<std::shared_ptr<comm::Comm>>& world,
                                          const RankFn& fn, const comm::CommOptions& options);

/// Runs fn on each rank and fails the test for each error.
void expect_world(const std::vector<std::shared_ptr<comm::Comm>>& world, const RankFn& fn);

/// The code and message of the Error in an exception_ptr.
struct Caught {
  int32_t code = 0;
  std::string message;
};
Caught caught(const std::exception_ptr& error);

}  // namespace hawser::testing
