#include "engine/comm/gate.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <climits>

#include "engine/device/cpu/pause.h"

namespace hawser::comm {

void Gate::notify() {
  version_.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) == 0) return;
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&version_), FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr,
          0);
}

void Gate::wait(uint32_t seen, double deadline, int32_t spins) {
  for (int32_t i = 0; i < spins; ++i) {
    if (version_.load(std::memory_order_acquire) != seen) return;
    device::cpu_pause();
  }
  timespec until{};
  const timespec* timeout = nullptr;
  if (deadline != kNoDeadline) {
    until.tv_sec = static_cast<time_t>(deadline);
    until.tv_nsec = static_cast<long>((deadline - static_cast<double>(until.tv_sec)) * 1e9);
    timeout = &until;
  }
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  // FUTEX_WAIT_BITSET has an absolute timeout of the monotonic clock. The kernel compares the version again.
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&version_), FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, seen,
          timeout, nullptr, FUTEX_BITSET_MATCH_ANY);
  sleepers_.fetch_sub(1, std::memory_order_seq_cst);
}

}  // namespace hawser::comm
