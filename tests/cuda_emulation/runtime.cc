// The small runtime calls of our launch code. memory.cc has memory, streams.cc has streams.
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

// Threads run one at a time, so a plain addition is atomic; because it is out of line, the race detector does
// not see it.
template <class T>
static T add(T* address, T value) {
  const T old = *address;
  *address = old + value;
  return old;
}
unsigned long long atomicAdd(unsigned long long* address, unsigned long long value) {
  return add(address, value);
}
int atomicAdd(int* address, int value) { return add(address, value); }
unsigned atomicMax(unsigned* address, unsigned value) {
  const unsigned old = *address;
  if (value > old) *address = value;
  return old;
}
