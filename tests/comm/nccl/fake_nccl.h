// NCCL between threads of one process, over host memory: as much of it as engine/comm/nccl uses, with its
// ways of not answering. Calls return at once; data is taken and moved when a stream runs them.
#pragma once

#include <cstdint>
#include <functional>

#include "engine/comm/nccl/nccl_library.h"

namespace hawser::testing {

const comm::nccl::Api& fake_nccl();

/// Gives a stream work, which returns false while it cannot be done yet. The build chooses whose streams
/// these are: fake_stream.cc, or the emulated GPU's (tests/cuda_emulation/emulated_nccl.cc).
void give_to_stream(void* stream, std::function<bool()> work);

/// Communicators that were made and neither destroyed nor aborted.
int64_t fake_communicators();

}  // namespace hawser::testing
