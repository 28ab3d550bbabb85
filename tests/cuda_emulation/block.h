// The running block, as the race detector and the runtime calls see it.
#pragma once

#include <cstdint>
#include <string>

namespace hawser::cuda_emulation {

/// Which thread runs, and how far barriers have ordered it: a block barrier begins a new block_epoch for all
/// threads of the block, a barrier or shuffle of a warp a new warp_epoch for its lanes.
struct Here {
  uint64_t launch = 0, block = 0;  ///< numbered through the program's life
  int32_t thread = 0;
  uint32_t block_epoch = 0, warp_epoch = 0;
};

/// Null outside kernels.
const Here* here();

/// Whether the address lies on a fiber's stack, which is a thread's own.
bool is_on_a_stack(uintptr_t address);

/// Keeps a finding, with the launch, block and thread that it happened in.
void report(const std::string& what);

/// Shared memory as a launch may use it, [begin, end), inside what the device has, [begin, end_of_all).
struct SharedMemory {
  uintptr_t begin = 0, end = 0, end_of_all = 0;
};

/// The race detector's side (race_detector.cc or race_detector_none.cc), before each launch.
void watch_shared_memory(const SharedMemory& shared);

}  // namespace hawser::cuda_emulation
