// Emulated streams: queues of work that run only when something needs the result (synchronisation, a wait for
// an event). That is later than on any GPU, but allowed by the same rules. Host memory that is reused too
// early after a copy, a result that is read too early, and a missing wait between streams thus give wrong
// values every time. Work without a stream runs at once.
#pragma once

#include <cstdint>
#include <functional>

#include "tests/cuda_emulation/include/cuda_runtime_api.h"

namespace hawser::cuda_emulation {

/// Returns cudaErrorNotReady if the work cannot run yet because another rank must run first; it is retried.
using Work = std::function<cudaError_t()>;

/// Submits work to the stream, or records it during a capture.
cudaError_t give(cudaStream_t stream, Work work);

/// Call this for operations that a capture must not contain (they wait or allocate): it invalidates this
/// thread's capture and returns its error.
cudaError_t refuse_in_capture();
/// Likewise, for the capture of one stream.
cudaError_t refuse_in_capture(cudaStream_t stream);

/// Makes work of all streams run when it is submitted from now on, the other extreme that is allowed.
void set_eager(bool eager);

/// Makes the running work take this many seconds, by the events around it.
void pass_seconds(int64_t seconds);

/// Breaks the GPU: the next piece of work fails with this error, and so does everything after it, until the
/// last stream is destroyed.
void break_device(cudaError_t error);

/// Number of GPUs; 0: cudaErrorNoDevice.
void set_devices(int devices);

/// Sets the newest CUDA version that the driver supports, as 1000 major + 10 minor; 0: there is no driver.
void set_driver(int version);

/// Calls `call` whenever GPUs are counted, before the answer.
void before_count(void (*call)());

/// Sets the name of one of the first four GPUs; the string must live as long as the program.
void set_name(int device, const char* name);

/// Sets the compute capability of all GPUs, times 10: 90 is 9.0.
void set_capability(int tenfold);

/// Sets the memory of each GPU; allocations beyond it fail.
void set_memory(int64_t bytes);

/// Numbers of existing allocations (device and pinned), streams, events, graphs and retained contexts.
struct Alive {
  int64_t allocations = 0, streams = 0, events = 0, graphs = 0, contexts = 0;
  bool operator==(const Alive&) const = default;
};
Alive alive();

}  // namespace hawser::cuda_emulation
