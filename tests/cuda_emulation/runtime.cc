// The runtime calls that our launch code makes, over host memory. Work is done when the call returns: a
// stream has nothing to wait for.
#include <cstring>

#include "tests/cuda_emulation/include/cuda_runtime.h"

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorInvalidConfiguration:
      return "cudaErrorInvalidConfiguration";
    default:
      return "cudaErrorInvalidValue";
  }
}

const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorInvalidConfiguration ? "invalid configuration argument" : "invalid argument";
}

cudaError_t cudaGetLastError() { return cudaSuccess; }

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t) {
  std::memset(to, value, bytes);
  return cudaSuccess;
}

// Threads run one at a time, so a plain addition is atomic; out of line, it is no access that could race.
unsigned long long atomicAdd(unsigned long long* address, unsigned long long value) {
  const unsigned long long old = *address;
  *address = old + value;
  return old;
}
