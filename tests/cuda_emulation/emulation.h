// What a test sees of the emulator: in which order threads run, and what went wrong. Kernels report nothing,
// so the emulator keeps what it found (races, barriers that not all threads reach, shared memory beyond what
// was asked for) until a test takes it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hawser::cuda_emulation {

enum class Order { kAscending, kDescending, kShuffled };

/// Of blocks, and of the threads of a block between two barriers; for launches from now on. Results must not
/// depend on it.
void set_order(Order order);

/// All findings since the last call, in the order in which they came; each site of a launch is named once.
std::vector<std::string> take_findings();

/// Launches since the start of the program.
int64_t launches();

}  // namespace hawser::cuda_emulation
