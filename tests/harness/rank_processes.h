// RankProcesses: ranks as forked processes that a test can kill and stop. It collects the report of each
// survivor.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "engine/comm/tcp/address.h"

namespace hawser::testing {

/// The report of one process at its end; "" if it was killed.
struct RankReport {
  std::string text;
  bool killed = false;
};

/// Starts ranks of a `world` at a free port of the loopback, which is the same for one object.
class RankProcesses {
 public:
  explicit RankProcesses(int32_t world, double silence_seconds = 10);
  /// Runs fn(options) in one process for each rank; reports its result, or "CODE message" for an Error.
  /// `victim` (-1: none) is killed when all other processes have ended, so that a stopped one does not
  /// remain.
  std::vector<RankReport> run(const std::function<std::string(const comm::AddressOptions&)>& fn,
                              int32_t victim = -1) const;

 private:
  comm::AddressOptions options_;
};

/// Numbers of threads, descriptors and shared memory of this process, to check that everything is released. A
/// sanitizer's own thread, which starts with the program's first thread, is started before counting.
struct Belongings {
  size_t threads = 0, descriptors = 0, shared_memory = 0;
  bool operator==(const Belongings&) const = default;
  std::string text() const;
};
Belongings belongings();
/// Waits briefly for ending threads.
bool belongings_become(const Belongings& before);

}  // namespace hawser::testing
