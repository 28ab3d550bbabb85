// Gate: blocks one thread until another has changed something. Waiters compare a version, so no change is
// missed between checking and sleeping. It uses a futex, because sleeping needs a deadline.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>

#include "engine/base/steady_clock.h"

namespace hawser::comm {

inline constexpr double kNoDeadline = std::numeric_limits<double>::infinity();

class Gate {
 public:
  /// Wakes the waiter. Call it after a change that a waiter may be waiting for.
  void notify();
  uint32_t version() const { return version_.load(std::memory_order_seq_cst); }
  /// Returns once version() differs from `seen`, at the deadline, or spuriously. Spins `spins` times first.
  void wait(uint32_t seen, double deadline, int32_t spins);

  /// Returns false at the deadline. `ready` must become true only together with a notify.
  template <class Ready>
  bool wait_until(double deadline, int32_t spins, const Ready& ready) {
    for (;;) {
      const uint32_t seen = version();
      if (ready()) return true;
      if (deadline != kNoDeadline && steady_seconds() >= deadline) return false;
      wait(seen, deadline, spins);
    }
  }

 private:
  std::atomic<uint32_t> version_{0};
  std::atomic<int32_t> sleepers_{0};
};

}  // namespace hawser::comm
