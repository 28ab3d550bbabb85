// Parts of router kernels that process a row with one warp: each lane has every 32nd expert, and scores are
// in shared memory.
#pragma once

#include "kernels/cuda/launch.h"
#include "kernels/cuda/shared_memory.h"
#include "kernels/cuda/team.h"
#include "kernels/include/router.h"

namespace hawser::kernels::cuda {

constexpr int kRouterWarps = 4, kRouterThreads = kRouterWarps * kWarpLanes;

/// Calls body(e) for the lane's experts.
template <class Body>
__device__ __forceinline__ void each_expert(const RouterShape& s, const Body& body) {
  for (int e = lane_of_thread(); e < s.experts; e += kWarpLanes) body(e);
}

/// Returns the sum of body(e) over all experts.
template <class Body>
__device__ __forceinline__ float sum_over_experts(const RouterShape& s, const Body& body) {
  float sum = 0;
  each_expert(s, [&](int e) { sum += body(e); });
  return warp_sum(sum);
}

__device__ __forceinline__ float log_sum_exp_of(const float* z, const RouterShape& s) {
  float max = -INFINITY;
  each_expert(s, [&](int e) { max = fmaxf(max, z[e]); });
  max = warp_max(max);
  return max + logf(sum_over_experts(s, [&](int e) { return expf(z[e] - max); }));
}

__device__ __forceinline__ float sigmoid_of(float z) { return 1.0f / (1.0f + expf(-z)); }

/// Computes score[e] of all experts. Returns the log-sum-exp of the logits for softmax scores, else 0.
__device__ __forceinline__ float scores_of(float* score, const float* z, const RouterShape& s) {
  const bool softmax = s.score == RouterScore::kSoftmax;
  const float log_sum_exp = softmax ? log_sum_exp_of(z, s) : 0.0f;
  each_expert(s, [&](int e) { score[e] = softmax ? expf(z[e] - log_sum_exp) : sigmoid_of(z[e]); });
  __syncwarp();
  return log_sum_exp;
}

/// Returns the row of this warp.
__device__ __forceinline__ int64_t router_row() {
  return static_cast<int64_t>(blockIdx.x) * kRouterWarps + warp_of_thread();
}

}  // namespace hawser::kernels::cuda
