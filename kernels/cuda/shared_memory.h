// Shared memory of a block. It is always dynamic, one struct per kernel, so that the launch states its size
// and the emulator can check its bounds.
#pragma once

#include <cuda_runtime.h>

namespace hawser::kernels::cuda {

extern __shared__ __align__(128) unsigned char dynamic_shared_memory[];

/// Returns the block's memory as a `T`, a struct without constructors; the launch must request at least
/// sizeof(T). It is uninitialised.
template <class T>
__device__ __forceinline__ T& shared_memory() {
  return *reinterpret_cast<T*>(dynamic_shared_memory);
}

}  // namespace hawser::kernels::cuda
