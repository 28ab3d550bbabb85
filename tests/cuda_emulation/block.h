// The running block, as the race detector and the runtime calls see it.
#pragma once

#include <cstdint>
#include <string>

namespace hawser::cuda_emulation {

/// Which thread runs, and its epochs: a block barrier starts a new block_epoch for all threads of the block,
/// a barrier or shuffle of a warp a new warp_epoch for its lanes.
struct Here {
  uint64_t launch = 0, block = 0;  ///< numbered through the program's life
  int32_t thread = 0;
  uint32_t block_epoch = 0, warp_epoch = 0;
};

/// Null outside kernels.
const Here* here();

/// Whether the address lies on a fiber's stack, which is a thread's own.
bool is_on_a_stack(uintptr_t address);

/// Records a finding with its launch, block and thread.
void report(const std::string& what);

/// The shared memory of a launch, [begin, end), inside the device's, [begin, end_of_all).
struct SharedMemory {
  uintptr_t begin = 0, end = 0, end_of_all = 0;
};

/// Implemented by the race detector (race_detector.cc or race_detector_none.cc); called before each launch.
void watch_shared_memory(const SharedMemory& shared);

}  // namespace hawser::cuda_emulation
