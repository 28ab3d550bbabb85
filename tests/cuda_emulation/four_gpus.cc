// The emulated plugin's machine has four GPUs, so that ranks may have one each.
#include "tests/cuda_emulation/streams.h"

namespace {
[[maybe_unused]] const bool kFour = (hawser::cuda_emulation::set_devices(4), true);
}  // namespace
