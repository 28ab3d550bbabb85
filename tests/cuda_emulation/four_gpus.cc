// Gives the emulated plugin's machine four GPUs, so that each rank can have one.
#include "tests/cuda_emulation/streams.h"

namespace {
[[maybe_unused]] const bool kFour = (hawser::cuda_emulation::set_devices(4), true);
}  // namespace
