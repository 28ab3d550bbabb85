// Access to numbers in device memory: f32, bf16 and f16 are read and written as floats, with up to 16 bytes
// per access, which is needed to reach the memory's bandwidth.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <initializer_list>

#include "engine/base/dtype.h"

namespace hawser::kernels::cuda {

using bf16 = __nv_bfloat16;
using f16 = __half;

__device__ __forceinline__ float to_float(float x) { return x; }
__device__ __forceinline__ float to_float(bf16 x) { return __bfloat162float(x); }
__device__ __forceinline__ float to_float(f16 x) { return __half2float(x); }

template <class T>
__device__ __forceinline__ T from_float(float x);
template <>
__device__ __forceinline__ float from_float<float>(float x) {
  return x;
}
template <>
__device__ __forceinline__ bf16 from_float<bf16>(float x) {
  return __float2bfloat16_rn(x);
}
template <>
__device__ __forceinline__ f16 from_float<f16>(float x) {
  return __float2half_rn(x);
}

/// Returns x rounded to T.
template <class T>
__device__ __forceinline__ float rounded_to(float x) {
  return to_float(from_float<T>(x));
}

/// N consecutive elements of one access.
template <class T, int N>
struct alignas(N * sizeof(T)) Packed {
  T element[N];
};

template <class T, int N>
constexpr int kAccess = N* static_cast<int>(sizeof(T)) <= 16 ? N : 16 / static_cast<int>(sizeof(T));

/// Loads out[0..N) = p[0..N). p is aligned to min(16, N * sizeof(T)) bytes; N is a power of two.
template <int N, class T>
__device__ __forceinline__ void load(float* out, const T* p) {
  constexpr int kOne = kAccess<T, N>;
#pragma unroll
  for (int i = 0; i < N; i += kOne) {
    const auto packed = *reinterpret_cast<const Packed<T, kOne>*>(p + i);
#pragma unroll
    for (int j = 0; j < kOne; ++j) out[i + j] = to_float(packed.element[j]);
  }
}

/// Stores p[0..N) = x[0..N), rounded to nearest even; p is aligned as for load.
template <int N, class T>
__device__ __forceinline__ void store(T* p, const float* x) {
  constexpr int kOne = kAccess<T, N>;
#pragma unroll
  for (int i = 0; i < N; i += kOne) {
    Packed<T, kOne> packed;
#pragma unroll
    for (int j = 0; j < kOne; ++j) packed.element[j] = from_float<T>(x[i + j]);
    *reinterpret_cast<Packed<T, kOne>*>(p + i) = packed;
  }
}

/// Number of elements that a thread processes at once.
constexpr int kWide = 8;

/// Loads the first `count` of kWide elements and sets the rest to zero. It uses wide accesses if `wide`,
/// which the caller sets if p allows them, and all elements exist.
template <class T>
__device__ __forceinline__ void load_some(float* out, const T* p, int64_t count, bool wide) {
  if (wide && count >= kWide) return load<kWide>(out, p);
#pragma unroll
  for (int i = 0; i < kWide; ++i) out[i] = i < count ? to_float(p[i]) : 0.0f;
}

template <class T>
__device__ __forceinline__ void store_some(T* p, const float* x, int64_t count, bool wide) {
  if (wide && count >= kWide) return store<kWide>(p, x);
#pragma unroll
  for (int i = 0; i < kWide; ++i) {
    if (i < count) p[i] = from_float<T>(x[i]);
  }
}

/// True if each of these addresses is null or allows wide accesses at multiples of kWide elements.
inline bool all_wide(std::initializer_list<const void*> addresses) {
  for (const void* address : addresses) {
    if (reinterpret_cast<uintptr_t>(address) % 16 != 0) return false;
  }
  return true;
}

/// True if all rows of `stride` elements of `type` from `base` on begin at addresses that allow wide
/// accesses.
inline bool wide_rows(const void* base, int64_t stride, DType type) {
  return all_wide({base}) && stride * dtype_bytes(type) % 16 == 0;
}

}  // namespace hawser::kernels::cuda
