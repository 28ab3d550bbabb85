// Ranks as forked processes that a test can kill and stop, and what each survivor reports, and when.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "engine/comm/tcp/address.h"

namespace hawser::testing {

/// What one process reports at its end; "" if it was killed.
struct RankReport {
  std::string text;
  bool killed = false;
};

/// Options of rank r of `world` at a free port of the loopback; the same port for one object.
class RankProcesses {
 public:
  explicit RankProcesses(int32_t world, double silence_seconds = 10);
  /// Runs fn(options) in a process for each rank; its result, or "CODE message" of an Error. `victim` (-1:
  /// none) is killed once all others have ended, so that a stopped one does not stay.
  std::vector<RankReport> run(const std::function<std::string(const comm::AddressOptions&)>& fn,
                              int32_t victim = -1) const;

 private:
  comm::AddressOptions options_;
};

/// Number of threads and descriptors of this process, to check that everything is released. A sanitizer's own
/// thread, which starts with the program's first, is started before counting.
struct Belongings {
  size_t threads = 0, descriptors = 0, shared_memory = 0;
  bool operator==(const Belongings&) const = default;
  std::string text() const;
};
Belongings belongings();
/// Waits briefly for threads that are ending.
bool belongings_become(const Belongings& before);

}  // namespace hawser::testing
