// One row of the softmax cross entropy, computed by one block: passes over its logits, and their log-sum-exp
// (online; Milakov and Gimelshein, arXiv:1805.02867).
#pragma once

#include "kernels/cuda/elements.h"
#include "kernels/cuda/table.h"
#include "kernels/cuda/team.h"
#include "kernels/cuda/types.h"

namespace hawser::kernels::cuda {
namespace {

constexpr int kThreads = 512, kWarps = kThreads / kWarpLanes;

/// Number of elements in 16 bytes.
template <class T>
constexpr int kVector = 16 / static_cast<int>(sizeof(T));

/// sum * exp(max) is the sum of exponentials. The sum is fp64, because a gradient at the target is p - 1.
struct LogSumExp {
  float max;
  double sum;
};

__device__ __forceinline__ LogSumExp joined(const LogSumExp& a, const LogSumExp& b) {
  const float max = fmaxf(a.max, b.max);
  if (max == -INFINITY) return {max, 0.0};
  return {max, a.sum * exp(static_cast<double>(a.max) - max) + b.sum * exp(static_cast<double>(b.max) - max)};
}

struct Shared {
  LogSumExp warp[kWarps];
};

__device__ __forceinline__ float capped(float x, float softcap) {
  return softcap > 0 ? softcap * tanhf(x / softcap) : x;
}

/// Calls body(j, x, N) for all elements of a row: single elements up to the first 16-byte boundary, then
/// vectors, then the rest.
template <class T, class Body>
__device__ __forceinline__ void over_row(const T* z, int64_t n, const Body& body) {
  constexpr int kEach = kVector<T>;
  const auto past = static_cast<int64_t>(reinterpret_cast<uintptr_t>(z) % 16);
  const int64_t misaligned = (16 - past) % 16 / static_cast<int64_t>(sizeof(T));
  const int64_t head = misaligned < n ? misaligned : n, vectors = (n - head) / kEach,
                tail = head + vectors * kEach;
  const int64_t thread = threadIdx.x;
  float x[kEach];
  if (thread < head) {
    load<1>(x, z + thread);
    body.template at<1>(thread, x);
  }
  // Starts several loads before the first is used.
  constexpr int kAhead = 2;
  int64_t i = thread;
  for (; i + (kAhead - 1) * kThreads < vectors; i += kAhead * kThreads) {
    float ahead[kAhead][kEach];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) load<kEach>(ahead[k], z + head + (i + k * kThreads) * kEach);
#pragma unroll
    for (int k = 0; k < kAhead; ++k) body.template at<kEach>(head + (i + k * kThreads) * kEach, ahead[k]);
  }
  for (; i < vectors; i += kThreads) {
    load<kEach>(x, z + head + i * kEach);
    body.template at<kEach>(head + i * kEach, x);
  }
  if (thread < n - tail) {
    load<1>(x, z + tail + thread);
    body.template at<1>(tail + thread, x);
  }
}

/// The first pass. It stores capped logits if they are the result.
template <class T>
struct Exponentials {
  LogSumExp* all;
  T* z;
  float softcap;
  bool keep;

  template <int N>
  __device__ void at(int64_t j, float* x) const {
    float max = all->max;
#pragma unroll
    for (int k = 0; k < N; ++k) {
      x[k] = capped(x[k], softcap);
      max = fmaxf(max, x[k]);
    }
    if (keep) store<N>(z + j, x);
    if (max > all->max) {
      all->sum *= exp(static_cast<double>(all->max) - max);
      all->max = max;
    }
#pragma unroll
    for (int k = 0; k < N; ++k) all->sum += static_cast<double>(expf(x[k] - max));
  }
};

/// The second pass, except for the target.
template <class T>
struct Gradient {
  T* z;
  float softcap, max, factor;

  template <int N>
  __device__ void at(int64_t j, float* x) const {
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const float value = capped(x[k], softcap), ratio = softcap > 0 ? value / softcap : 0.0f;
      x[k] = expf(value - max) * factor * fmaf(-ratio, ratio, 1.0f);
    }
    store<N>(z + j, x);
  }
};

template <class T>
struct Masked {
  T* z;
  float softcap;
  bool zero;

  template <int N>
  __device__ void at(int64_t j, float* x) const {
#pragma unroll
    for (int k = 0; k < N; ++k) x[k] = zero ? 0.0f : capped(x[k], softcap);
    store<N>(z + j, x);
  }
};

__device__ __forceinline__ LogSumExp over_warp(LogSumExp x) {
#pragma unroll
  for (int bits = kWarpLanes / 2; bits > 0; bits /= 2) {
    x = joined(x, {__shfl_xor_sync(kAllLanes, x.max, bits), __shfl_xor_sync(kAllLanes, x.sum, bits)});
  }
  return x;
}

__device__ __forceinline__ LogSumExp over_block(LogSumExp x, Shared& shared) {
  x = over_warp(x);
  if (lane_of_thread() == 0) shared.warp[warp_of_thread()] = x;
  __syncthreads();
  const LogSumExp none = {-INFINITY, 0.0};
  return over_warp(lane_of_thread() < kWarps ? shared.warp[lane_of_thread()] : none);
}

/// Returns the gradient at the target, whose capped logit was z.
__device__ __forceinline__ float target_gradient(float z, const LogSumExp& all, float softcap, float scale) {
  const double ratio = softcap > 0 ? static_cast<double>(z) / softcap : 0.0;
  const double p = exp(static_cast<double>(z) - all.max) / all.sum;
  return static_cast<float>((p - 1.0) * (1.0 - ratio * ratio) * scale);
}

}  // namespace
}  // namespace hawser::kernels::cuda
