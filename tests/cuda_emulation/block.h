// The running block, for the race detector and the runtime calls.
#pragma once

#include <cstdint>
#include <string>

namespace hawser::cuda_emulation {

/// The running thread and its epochs. A block barrier starts a new block_epoch for all threads of the block;
/// a barrier or shuffle of a warp starts a new warp_epoch for its lanes.
struct Here {
  uint64_t launch = 0, block = 0;  ///< numbered through the program's life
  int32_t thread = 0;
  uint32_t block_epoch = 0, warp_epoch = 0;
};

/// Returns null outside of kernels.
const Here* here();

/// Returns true if the address lies on a fiber's stack, which is private to a thread.
bool is_on_a_stack(uintptr_t address);

/// Records a finding with its launch, block and thread.
void report(const std::string& what);

/// True if work is recorded instead of run (emulation.h).
bool records_launches();

/// The shared memory of a launch, [begin, end), within that of the device, [begin, end_of_all).
struct SharedMemory {
  uintptr_t begin = 0, end = 0, end_of_all = 0;
};

/// Implemented by the race detector (race_detector.cc or race_detector_none.cc); called before each launch.
void watch_shared_memory(const SharedMemory& shared);

}  // namespace hawser::cuda_emulation
