// Emulated streams: queues of work that nothing runs until somebody must have it (synchronisation, an event
// that is waited for). That is later than any GPU is, and allowed by the same rules: a copy whose host memory
// is used again too early, a result that is read before it is there, and a wait between streams that is
// missing all give wrong values, every time. Work without a stream runs at once.
#pragma once

#include <cstdint>
#include <functional>

#include "tests/cuda_emulation/include/cuda_runtime_api.h"

namespace hawser::cuda_emulation {

/// cudaErrorNotReady: it cannot be done yet, because another rank must come first; it is tried again.
using Work = std::function<cudaError_t()>;

/// Gives the stream work, or notes it while the stream is captured.
cudaError_t give(cudaStream_t stream, Work work);

/// For what no capture may contain (it waits, or takes memory): spoils the one that this thread has begun,
/// and says so.
cudaError_t refuse_in_capture();
/// The same for one stream's.
cudaError_t refuse_in_capture(cudaStream_t stream);

/// Of all streams from now on: work runs when it is given (the other end of what is allowed).
void set_eager(bool eager);

/// Work that runs now takes so long, for events around it.
void pass_seconds(int64_t seconds);

/// The GPU breaks: the next piece of work that runs fails with this error, and so does everything after it,
/// until the last stream is destroyed.
void break_device(cudaError_t error);

/// GPUs that there are; 0: cudaErrorNoDevice, -1: no driver.
void set_devices(int devices);

/// Of one of the first four GPUs; lives as long as the program.
void set_name(int device, const char* name);

/// Of each GPU; allocations beyond it fail.
void set_memory(int64_t bytes);

/// What exists now of memory (device and pinned), streams, events, graphs and retained contexts.
struct Alive {
  int64_t allocations = 0, streams = 0, events = 0, graphs = 0, contexts = 0;
  bool operator==(const Alive&) const = default;
};
Alive alive();

}  // namespace hawser::cuda_emulation
