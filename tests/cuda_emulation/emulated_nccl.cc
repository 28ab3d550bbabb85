// NCCL on emulated GPUs: the NCCL between threads (tests/comm/nccl), whose calls are work of emulated
// streams. It replaces engine/comm/nccl/nccl_library.cc, which opens the real one.
#include "engine/comm/nccl/nccl_library.h"
#include "tests/comm/nccl/fake_nccl.h"
#include "tests/cuda_emulation/streams.h"

namespace hawser::testing {

void give_to_stream(void* stream, std::function<bool()> work) {
  cuda_emulation::give(static_cast<cudaStream_t>(stream), [work = std::move(work)]() mutable {
    return work() ? cudaSuccess : cudaErrorNotReady;
  });
}

void* take_device_memory(size_t bytes) {
  void* memory = nullptr;
  return cudaMalloc(&memory, bytes) == cudaSuccess ? memory : nullptr;
}
void free_device_memory(void* memory) { cudaFree(memory); }

}  // namespace hawser::testing

namespace hawser::comm::nccl {

const Api* open_library(const char*, char*, size_t) { return &testing::fake_nccl(); }

}  // namespace hawser::comm::nccl
