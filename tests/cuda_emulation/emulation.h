// The emulator's interface for tests: the order of threads, and findings. Kernels report nothing, so the
// emulator stores its findings (races, barriers that some threads miss, accesses beyond the requested shared
// memory) until a test takes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace hawser::cuda_emulation {

enum class Order { kAscending, kDescending, kShuffled };

/// Sets the order of blocks, and of the threads of a block between two barriers, for launches from now on.
/// Results must not depend on it.
void set_order(Order order);

/// Returns all findings since the last call, in order; each site of a launch is named once.
std::vector<std::string> take_findings();

/// Returns the number of launches since the start of the program.
int64_t launches();

/// Only in programs with the race detector: counts the bytes of [begin, end) that kernels read and write from
/// now on, each as often as it is accessed.
void count_accesses(const void* begin, const void* end);
int64_t accessed_bytes();

/// A launch that was recorded instead of run.
struct RecordedLaunch {
  const void* kernel = nullptr;  ///< the address of its function
  int64_t blocks = 0;
  int threads = 0;
  size_t shared_bytes = 0;
};

/// From now on, work is not run, and launches are appended to `to`; null: work is run again. Arguments are
/// never accessed, so that they can have the sizes of a GPU's memory.
void record_launches(std::vector<RecordedLaunch>* to);

}  // namespace hawser::cuda_emulation
