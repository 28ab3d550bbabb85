// Fake NCCL: NCCL between threads of one process, over host memory. It has the part that engine/comm/nccl
// uses, including delayed and missing answers. Calls return at once; data is read and moved when a stream
// runs them.
#pragma once

#include <cstdint>
#include <functional>

#include "engine/comm/nccl/nccl_library.h"

namespace hawser::testing {

const comm::nccl::Api& fake_nccl();

/// Submits work to a stream; the work returns false while it cannot complete yet. A copy of the work starts
/// from its beginning, for graphs that are launched again. The build selects the streams: fake_stream.cc, or
/// the emulated GPU's (tests/cuda_emulation/emulated_nccl.cc).
void give_to_stream(void* stream, std::function<bool()> work);

/// Returns the number of communicators that were created and neither destroyed nor aborted.
int64_t fake_communicators();

}  // namespace hawser::testing
