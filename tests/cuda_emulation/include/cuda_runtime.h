// The part of <cuda_runtime.h> that our .cu files use, for g++. The build puts this folder before any
// toolkit's. Kernels are then plain functions, which the emulator (tests/cuda_emulation/block.h) calls once
// for each thread of each block, as fibers of the calling thread. Device memory is host memory.
//
// Shared memory is dynamic only (kernels/cuda/shared_memory.h): `extern __shared__` names one array of the
// emulator.
#pragma once

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include <functional>
#include <tuple>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __shared__
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};

using cudaStream_t = struct CUstream_st*;

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorIllegalAddress = 700,
  cudaErrorLaunchFailure = 719,
};
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };

struct cudaLaunchAttribute;
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  size_t dynamicSmemBytes;
  cudaStream_t stream;
  cudaLaunchAttribute* attrs;
  unsigned numAttrs;
};

namespace hawser::cuda_emulation {

// These functions are out of line, so that the race detector does not see them; it watches only the kernels
// themselves.
uint3 thread_index();
uint3 block_index();
uint3 block_size();
uint3 grid_size();
void block_barrier();
void warp_barrier(unsigned mask);
/// Returns the value that lane `from` of this warp passed.
uint64_t warp_exchange(unsigned mask, uint64_t value, unsigned from);
unsigned warp_ballot(unsigned mask, bool vote);
constexpr int kGatheredWords = 6;
/// Passes `count` words of this lane to the warp, and returns the words of all lanes, [32][kGatheredWords],
/// which stay until the warp's second operation after this one. It orders no accesses to memory.
const uint32_t (*warp_gather(const uint32_t* words, int count))[kGatheredWords];
unsigned lane();
cudaError_t launch(const cudaLaunchConfig_t& config, void (*run)(void* arg), void* arg);
/// True if launches are recorded instead of run (emulation.h); then records this one.
bool is_recorded(const void* kernel, const cudaLaunchConfig_t& config);
cudaError_t allow_shared_memory(int bytes);
/// Returns the shared memory allowed for this thread's next launch, and resets it.
int take_allowed_shared_memory();
/// Submits work to the stream; null: runs it at once (streams.h).
cudaError_t give(cudaStream_t stream, std::function<cudaError_t()> work);

template <class T>
T exchange(unsigned mask, T value, unsigned from) {
  static_assert(sizeof(T) <= sizeof(uint64_t));
  uint64_t bits = 0;
  __builtin_memcpy(&bits, &value, sizeof(T));
  bits = warp_exchange(mask, bits, from);
  __builtin_memcpy(&value, &bits, sizeof(T));
  return value;
}

}  // namespace hawser::cuda_emulation

/// A built-in variable of kernels: reading a component calls the emulator.
template <class Read>
struct BuiltInComponent {
  operator unsigned() const { return Read::value(); }
};
#define HWS_BUILT_IN(name, source)                   \
  namespace hawser::cuda_emulation {                 \
  struct name##_type {                               \
    struct X {                                       \
      static unsigned value() { return source().x; } \
    };                                               \
    struct Y {                                       \
      static unsigned value() { return source().y; } \
    };                                               \
    struct Z {                                       \
      static unsigned value() { return source().z; } \
    };                                               \
    BuiltInComponent<X> x;                           \
    BuiltInComponent<Y> y;                           \
    BuiltInComponent<Z> z;                           \
  };                                                 \
  }                                                  \
  inline constexpr hawser::cuda_emulation::name##_type name = {};
HWS_BUILT_IN(threadIdx, thread_index)
HWS_BUILT_IN(blockIdx, block_index)
HWS_BUILT_IN(blockDim, block_size)
HWS_BUILT_IN(gridDim, grid_size)

inline unsigned __float_as_uint(float x) { return __builtin_bit_cast(unsigned, x); }
inline float __uint_as_float(unsigned x) { return __builtin_bit_cast(float, x); }

inline void __syncthreads() { hawser::cuda_emulation::block_barrier(); }
inline void __syncwarp(unsigned mask = 0xffffffffu) { hawser::cuda_emulation::warp_barrier(mask); }

template <class T>
T __shfl_sync(unsigned mask, T value, int from, int width = 32) {
  const unsigned lane = hawser::cuda_emulation::lane(), first = lane & ~(static_cast<unsigned>(width) - 1);
  return hawser::cuda_emulation::exchange(mask, value, first + static_cast<unsigned>(from % width));
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32) {
  const unsigned lane = hawser::cuda_emulation::lane(), from = lane ^ static_cast<unsigned>(bits);
  const bool inside =
      (from & ~(static_cast<unsigned>(width) - 1)) <= (lane & ~(static_cast<unsigned>(width) - 1));
  return hawser::cuda_emulation::exchange(mask, value, inside ? from : lane);
}
inline unsigned __ballot_sync(unsigned mask, int vote) {
  return hawser::cuda_emulation::warp_ballot(mask, vote != 0);
}
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __any_sync(unsigned mask, int vote) {
  return hawser::cuda_emulation::warp_ballot(mask, vote != 0) != 0 ? 1 : 0;
}
inline int __ffs(int x) { return __builtin_ffs(x); }

unsigned long long atomicAdd(unsigned long long* address, unsigned long long value);
int atomicAdd(int* address, int value);
unsigned atomicMax(unsigned* address, unsigned value);
inline int atomicSub(int* address, int value) { return atomicAdd(address, -value); }

template <class... Params, class... Args>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Params...), Args&&... args) {
  using namespace hawser::cuda_emulation;
  std::tuple<Params...> held(static_cast<Args&&>(args)...);
  const int shared = take_allowed_shared_memory();
  if (is_recorded(reinterpret_cast<const void*>(kernel), *config)) return cudaSuccess;
  return give(config->stream, [held, kernel, shared, config = *config] {
    auto run = [&held, kernel] { std::apply(kernel, held); };
    using Run = decltype(run);
    allow_shared_memory(shared);
    return launch(
        config, [](void* arg) { (*static_cast<Run*>(arg))(); }, &run);
  });
}

template <class Function>
cudaError_t cudaFuncSetAttribute(Function*, cudaFuncAttribute, int bytes) {
  return hawser::cuda_emulation::allow_shared_memory(bytes);
}

const char* cudaGetErrorName(cudaError_t error);
const char* cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetLastError();
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream);
