// Teams: the threads that share one row. A sum over a team adds fixed pairs, so it has the same bits in every
// run.
#pragma once

#include "kernels/cuda/launch.h"
#include "kernels/cuda/shared_memory.h"

namespace hawser::kernels::cuda {

__device__ __forceinline__ float warp_sum(float x, int width = kWarpLanes) {
#pragma unroll
  for (int bits = kWarpLanes / 2; bits > 0; bits /= 2) {
    if (bits < width) x += __shfl_xor_sync(kAllLanes, x, bits);
  }
  return x;
}

__device__ __forceinline__ float warp_max(float x, int width = kWarpLanes) {
#pragma unroll
  for (int bits = kWarpLanes / 2; bits > 0; bits /= 2) {
    if (bits < width) x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, bits));
  }
  return x;
}

/// The largest x of a warp, in all its lanes.
__device__ __forceinline__ unsigned warp_most(unsigned x) {
#pragma unroll
  for (int half = kWarpLanes / 2; half > 0; half /= 2) {
    const unsigned other = __shfl_xor_sync(kAllLanes, x, half);
    x = other > x ? other : x;
  }
  return x;
}

__device__ __forceinline__ int lane_of_thread() { return static_cast<int>(threadIdx.x) % kWarpLanes; }
__device__ __forceinline__ int warp_of_thread() { return static_cast<int>(threadIdx.x) / kWarpLanes; }

/// One value for each warp of a block.
struct WarpValues {
  float value[32];
};

/// A warp: each row belongs to a warp, and a block has several.
struct WarpTeam {
  __device__ static int rank() { return lane_of_thread(); }
  __device__ static int size() { return kWarpLanes; }
  __device__ static float sum(float x, WarpValues&) { return warp_sum(x); }
  __device__ static void barrier() {}
};

/// A block: each row belongs to one. `values` may be reused after the next barrier.
struct BlockTeam {
  __device__ static int rank() { return static_cast<int>(threadIdx.x); }
  __device__ static int size() { return static_cast<int>(blockDim.x); }
  __device__ static float sum(float x, WarpValues& values) {
    const int warps = size() / kWarpLanes;
    x = warp_sum(x);
    if (lane_of_thread() == 0) values.value[warp_of_thread()] = x;
    __syncthreads();
    return warp_sum(lane_of_thread() < warps ? values.value[lane_of_thread()] : 0.0f);
  }
  __device__ static void barrier() { __syncthreads(); }
};

}  // namespace hawser::kernels::cuda
