// Linked into programs whose kernels are not compiled for the race detector.
#include "tests/cuda_emulation/block.h"

namespace hawser::cuda_emulation {

void watch_shared_memory(const SharedMemory&) {}

}  // namespace hawser::cuda_emulation
