// Routing: scores, the choice of experts, and their gradients. A warp computes each row.
#include "kernels/cuda/router_row.h"
#include "kernels/cuda/table.h"

namespace hawser::kernels::cuda {
namespace {

struct Row {
  float score[kMaxExperts], ranked[kMaxExperts];
};
struct Shared {
  Row rows[kRouterWarps];
};

/// Returns the index of the largest of x[n] over a warp; ties go to the lowest index. NaN is never chosen;
/// returns n if all are NaN.
__device__ __forceinline__ int largest(const float* x, int n) {
  float best = 0;
  int at = n;
  for (int i = lane_of_thread(); i < n; i += kWarpLanes)
    if (!isnan(x[i]) && (at == n || x[i] > best)) best = x[i], at = i;
#pragma unroll
  for (int bits = kWarpLanes / 2; bits > 0; bits /= 2) {
    const float other = __shfl_xor_sync(kAllLanes, best, bits);
    const int other_at = __shfl_xor_sync(kAllLanes, at, bits);
    if (other_at < n && (at == n || other > best || (other == best && other_at < at)))
      best = other, at = other_at;
  }
  return at;
}

/// Sets the scores of experts outside of the best groups to NaN, which `largest` does not choose. It finds
/// the best groups by their sums, which overwrite the first scores of `spare`.
__device__ __forceinline__ void keep_best_groups(float* x, float* spare, const RouterShape& s) {
  const int groups = static_cast<int>(s.groups), size = static_cast<int>(s.experts / s.groups);
  for (int g = lane_of_thread(); g < groups; g += kWarpLanes) {
    float first = x[g * size], second = -INFINITY;
    for (int i = 1; i < size; ++i) {
      const float value = x[g * size + i], low = value > first ? first : value;
      first = value > first ? value : first;
      second = low > second ? low : second;
    }
    spare[g] = size > 1 ? first + second : first;
  }
  __syncwarp();
  for (int64_t taken = 0; taken < s.top_groups; ++taken) {
    const int best = largest(spare, groups);
    __syncwarp();
    if (lane_of_thread() == 0 && best < groups) spare[best] = NAN;  // marks the group as taken
    __syncwarp();
  }
  each_expert(s, [&](int e) {
    if (!isnan(spare[e / size])) x[e] = NAN;
  });
  __syncwarp();
}

__global__ void __launch_bounds__(kRouterThreads) forward_kernel(const RouterForward a) {
  const RouterShape& s = a.shape;
  const int64_t row = router_row();
  if (row >= s.rows) return;
  Row& shared = shared_memory<Shared>().rows[warp_of_thread()];
  const float* const z = a.logits + row * s.experts;
  const int experts = static_cast<int>(s.experts);
  scores_of(shared.score, z, s);
  each_expert(s, [&](int e) { shared.ranked[e] = shared.score[e] + (a.bias != nullptr ? a.bias[e] : 0.0f); });
  __syncwarp();
  if (s.top_groups < s.groups) {
    keep_best_groups(shared.ranked, shared.score, s);
    scores_of(shared.score, z, s);  // again, because the groups' sums overwrote the scores
  }
  for (int64_t taken = 0; taken < s.top_k; ++taken) {
    int best = largest(shared.ranked, experts);
    for (int e = 0; best == experts && e < experts; ++e)  // if all are NaN, takes the lowest that is not
                                                          // taken
      if (!signbit(shared.score[e])) best = e;
    __syncwarp();
    if (lane_of_thread() == 0) {
      shared.ranked[best] = NAN;
      shared.score[best] = -fabsf(shared.score[best]);  // marks the expert as taken: scores have no sign
                                                        // otherwise
    }
    __syncwarp();
  }
  if (lane_of_thread() != 0) return;
  int32_t* const choice = a.choice + row * s.top_k;
  float* const weights = a.weights + row * s.top_k;
  float sum = 0;
  int64_t j = 0;
  for (int e = 0; e < experts && j < s.top_k; ++e) {
    if (!signbit(shared.score[e])) continue;
    const float score = -shared.score[e];
    choice[j] = e;
    weights[j++] = score;
    sum += score;
  }
  const float factor = s.normalize ? s.scale / (sum + kLeastSum) : s.scale;
  for (j = 0; j < s.top_k; ++j) weights[j] *= factor;
}

__device__ __forceinline__ float weight_gradient(const RouterBackward& a, int64_t at) {
  return a.place != nullptr && a.place[at] < 0 ? 0.0f : a.dweights[at] * a.shape.scale;
}

/// Adds the gradients of the scores through the weights to dscore, which is zero before.
__device__ __forceinline__ void weights_backward(float* dscore, const float* score, const RouterBackward& a,
                                                 int64_t row) {
  const RouterShape& s = a.shape;
  const int64_t at = row * s.top_k;
  float sum = s.normalize ? kLeastSum : 1.0f, along = 0;
  for (int64_t j = 0; s.normalize && j < s.top_k; ++j) {
    sum += score[a.choice[at + j]];
    along += weight_gradient(a, at + j) * score[a.choice[at + j]];
  }
  for (int64_t j = lane_of_thread(); j < s.top_k; j += kWarpLanes)
    dscore[a.choice[at + j]] = (weight_gradient(a, at + j) - along / sum) / sum;
  __syncwarp();
}

__global__ void __launch_bounds__(kRouterThreads) backward_kernel(const RouterBackward a) {
  const RouterShape& s = a.shape;
  const int64_t row = router_row();
  if (row >= s.rows) return;
  Row& shared = shared_memory<Shared>().rows[warp_of_thread()];
  const float* const z = a.logits + row * s.experts;
  float* const dz = a.dlogits + row * s.experts;
  float *const score = shared.score, *const dscore = shared.ranked;
  const bool sigmoid = s.score == RouterScore::kSigmoid;
  const float known = scores_of(score, z, s);
  each_expert(s, [&](int e) { dscore[e] = 0; });
  __syncwarp();
  weights_backward(dscore, score, a, row);
  if (a.balance_scale != 0) {
    const float* const counts = a.statistics + (a.first_row + row) / a.seq * statistics_width(s.experts);
    const float sum = sigmoid ? sum_over_experts(s, [&](int e) { return score[e]; }) : 1.0f;
    const float along =
        sigmoid ? sum_over_experts(s, [&](int e) { return counts[e] * score[e]; }) / sum : 0.0f;
    const float scale = a.scaled(a.balance_scale);
    each_expert(s, [&](int e) { dscore[e] += scale * (counts[e] - along) / sum; });
  }
  const float along = sigmoid ? 0.0f : sum_over_experts(s, [&](int e) { return dscore[e] * score[e]; });
  const float log_sum_exp = a.z_scale != 0 && sigmoid ? log_sum_exp_of(z, s) : known;
  const float factor = 2 * a.scaled(a.z_scale) * log_sum_exp;
  each_expert(s, [&](int e) {
    const float through = sigmoid ? dscore[e] * score[e] * (1.0f - score[e]) : score[e] * (dscore[e] - along);
    dz[e] = a.z_scale != 0 ? through + factor * expf(z[e] - log_sum_exp) : through;
  });
}

LaunchShape shape_of(const RouterShape& s) {
  return {grid(blocks_for(s.rows, kRouterWarps)), kRouterThreads, sizeof(Shared)};
}

}  // namespace

void router_forward(const RouterForward& args, Stream& stream) {
  if (args.shape.rows <= 0) return;
  launch(cuda_stream(stream), "router_forward", shape_of(args.shape), forward_kernel, args);
}

void router_backward(const RouterBackward& args, Stream& stream) {
  if (args.shape.rows <= 0) return;
  launch(cuda_stream(stream), "router_backward", shape_of(args.shape), backward_kernel, args);
}

}  // namespace hawser::kernels::cuda
