// The same cases over different transports: a world runs fn on one thread per rank.
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
  /// One Comm for each entry; together they hold ranks 0 to n - 1.
  std::vector<std::shared_ptr<comm::Comm>> (*make)(int32_t ranks);
  std::vector<int32_t> sizes;  ///< of the worlds that every operation is tried on
};

/// The transports that a test binary runs its cases over (kinds_*.cc).
const std::vector<WorldKind>& world_kinds();

std::vector<std::shared_ptr<comm::Comm>> local_world(int32_t ranks);
/// Host transports over queues in memory: sends return at once.
std::vector<std::shared_ptr<comm::Comm>> memory_world(int32_t ranks);
/// The same. `sent` counts the messages of all ranks, and must outlive the world.
std::vector<std::shared_ptr<comm::Comm>> counted_world(int32_t ranks, std::atomic<int64_t>& sent);
/// The same as memory_world, but all sends above kEagerBytes wait for their receiver.
std::vector<std::shared_ptr<comm::Comm>> synchronous_world(int32_t ranks);

/// Runs fn on each rank in its own thread. Returns each rank's error, nullptr for none.
std::vector<std::exception_ptr> run_world(const std::vector<std::shared_ptr<comm::Comm>>& world,
                                          const RankFn& fn, const comm::CommOptions& options);

/// Runs fn on each rank and fails the test for each error.
void expect_world(const std::vector<std::shared_ptr<comm::Comm>>& world, const RankFn& fn);

/// The code and message of an exception_ptr that holds an Error.
struct Caught {
  int32_t code = 0;
  std::string message;
};
Caught caught(const std::exception_ptr& error);

}  // namespace hawser::testing
