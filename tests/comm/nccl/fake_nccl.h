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

/// Memory of the streams' device. The build selects it, as give_to_stream.
void* take_device_memory(size_t bytes);
void free_device_memory(void* memory);

/// Freeing memory that is still registered ends the program.
struct FakeRegistrations {
  int64_t ranges = 0;   ///< registered now, by all communicators
  int64_t outside = 0;  ///< messages of communicators with ranges, to or from memory outside them
};
FakeRegistrations fake_registrations();
/// While set, this rank's communicators fail to register; -1: none does.
void fail_registrations_of(int rank);

/// While set, aborts stop the calls of their group and then wait, as NCCL does while graphs contain its
/// calls.
void hold_aborts(bool hold);

/// Returns the number of communicators that were created and neither destroyed nor aborted.
int64_t fake_communicators();

}  // namespace hawser::testing
