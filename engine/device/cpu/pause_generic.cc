// cpu_pause for CPUs without an instruction for it: only a compiler barrier.
#include <atomic>

#include "engine/device/cpu/pause.h"

namespace hawser::device {
void cpu_pause() { std::atomic_signal_fence(std::memory_order_seq_cst); }
}  // namespace hawser::device
