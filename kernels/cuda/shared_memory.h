// Shared memory of a block. Always dynamic, one struct per kernel: its size is stated at the launch, and the
// emulator can check its bounds.
#pragma once

#include <cuda_runtime.h>

namespace hawser::kernels::cuda {

extern __shared__ __align__(128) unsigned char dynamic_shared_memory[];

/// The block's memory as a `T`, a struct without constructors; the launch asks for sizeof(T) or more.
/// Uninitialised.
template <class T>
__device__ __forceinline__ T& shared_memory() {
  return *reinterpret_cast<T*>(dynamic_shared_memory);
}

}  // namespace hawser::kernels::cuda
