// Routing: scores, the choice of experts, and their gradients, one row at a time.
#include "kernels/cpu/baseline/router_scores.h"
#include "kernels/cpu/level.h"
#include "kernels/cpu/parallel.h"

namespace hawser::kernels::baseline {
namespace {

constexpr int64_t kGrain = 32;  // rows in a task

/// Marks the `count` largest of x[n] in mark[n]; ties go to the lower index. x is unchanged.
void mark_largest(bool* mark, float* x, int64_t n, int64_t count) {
  for (int64_t i = 0; i < n; ++i) mark[i] = false;
  for (int64_t taken = 0; taken < count; ++taken) {
    int64_t best = -1;
    for (int64_t i = 0; i < n; ++i)
      if (!mark[i] && (best < 0 || x[i] > x[best])) best = i;
    mark[best] = true;
  }
}

/// Returns the sum of the best two scores, or the only score.
float group_score(const float* x, int64_t n) {
  float first = x[0], second = -__builtin_inff();
  for (int64_t i = 1; i < n; ++i) {
    const float low = x[i] > first ? first : x[i];
    first = x[i] > first ? x[i] : first;
    second = low > second ? low : second;
  }
  return n > 1 ? first + second : first;
}

/// Sets the scores of experts outside of the best groups to minus infinity.
void keep_best_groups(float* x, const RouterShape& s) {
  const int64_t size = s.experts / s.groups;
  float scores[kMaxExperts];
  bool kept[kMaxExperts];
  for (int64_t g = 0; g < s.groups; ++g) scores[g] = group_score(x + g * size, size);
  mark_largest(kept, scores, s.groups, s.top_groups);
  for (int64_t e = 0; e < s.experts; ++e)
    if (!kept[e / size]) x[e] = -__builtin_inff();
}

void route(const RouterForward& a, int64_t row) {
  const RouterShape& s = a.shape;
  float score[kScoreRoom], ranked[kScoreRoom];
  bool chosen[kMaxExperts];
  scores_of(score, a.logits + row * s.experts, s);
  for (int64_t e = 0; e < s.experts; ++e) ranked[e] = a.bias != nullptr ? score[e] + a.bias[e] : score[e];
  if (s.top_groups < s.groups) keep_best_groups(ranked, s);
  mark_largest(chosen, ranked, s.experts, s.top_k);
  int32_t* const choice = a.choice + row * s.top_k;
  float* const weights = a.weights + row * s.top_k;
  float sum = 0;
  for (int64_t e = 0, j = 0; e < s.experts; ++e) {
    if (!chosen[e]) continue;
    choice[j] = static_cast<int32_t>(e);
    weights[j++] = score[e];
    sum += score[e];
  }
  const float factor = s.normalize ? s.scale / (sum + kLeastSum) : s.scale;
  for (int64_t j = 0; j < s.top_k; ++j) weights[j] *= factor;
}

/// Adds the gradients of the scores through the weights of the chosen experts.
void weights_backward(float* dscore, const float* score, const RouterBackward& a, int64_t row) {
  const RouterShape& s = a.shape;
  const int64_t at = row * s.top_k;
  const auto gradient = [&](int64_t j) {
    return a.place != nullptr && a.place[at + j] < 0 ? 0.0f : a.dweights[at + j] * s.scale;
  };
  if (!s.normalize) {
    for (int64_t j = 0; j < s.top_k; ++j) dscore[a.choice[at + j]] += gradient(j);
    return;
  }
  float sum = kLeastSum, along = 0;
  for (int64_t j = 0; j < s.top_k; ++j) sum += score[a.choice[at + j]];
  for (int64_t j = 0; j < s.top_k; ++j) along += gradient(j) * score[a.choice[at + j]];
  for (int64_t j = 0; j < s.top_k; ++j) dscore[a.choice[at + j]] += (gradient(j) - along / sum) / sum;
}

/// Adds the gradients of the scores through the balance loss, which uses scores that add up to 1.
void balance_backward(float* dscore, const float* score, const RouterBackward& a, int64_t row) {
  const RouterShape& s = a.shape;
  const float* const counts = a.statistics + (a.first_row + row) / a.seq * statistics_width(s.experts);
  const float scale = a.scaled(a.balance_scale);
  float sum = 1, along = 0;
  if (s.score == RouterScore::kSigmoid) {
    sum = 0;
    for (int64_t e = 0; e < s.experts; ++e) sum += score[e], along += counts[e] * score[e];
    along /= sum;
  }  // softmax scores add up to 1 already, and the gradient of the softmax is applied later
  for (int64_t e = 0; e < s.experts; ++e) dscore[e] += scale * (counts[e] - along) / sum;
}

void route_backward(const RouterBackward& a, int64_t row) {
  const RouterShape& s = a.shape;
  const float* const z = a.logits + row * s.experts;
  float* const dz = a.dlogits + row * s.experts;
  float score[kScoreRoom], dscore[kScoreRoom], softmax[kScoreRoom];
  for (int64_t e = 0; e < s.experts; ++e) dscore[e] = 0;
  scores_of(score, z, s);
  weights_backward(dscore, score, a, row);
  if (a.balance_scale != 0) balance_backward(dscore, score, a, row);
  if (s.score == RouterScore::kSigmoid) {
    for (int64_t e = 0; e < s.experts; ++e) dz[e] = dscore[e] * score[e] * (1.0f - score[e]);
  } else {
    float along = 0;
    for (int64_t e = 0; e < s.experts; ++e) along += dscore[e] * score[e];
    for (int64_t e = 0; e < s.experts; ++e) dz[e] = score[e] * (dscore[e] - along);
  }
  if (a.z_scale == 0) return;
  const float factor = 2 * a.scaled(a.z_scale) * softmax_of(softmax, z, s.experts);
  for (int64_t e = 0; e < s.experts; ++e) dz[e] += factor * softmax[e];
}

}  // namespace

void router_forward(const RouterForward& args, Stream& stream) {
  parallel_ranges(stream, args.shape.rows, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) route(args, row);
  });
}

void router_backward(const RouterBackward& args, Stream& stream) {
  parallel_ranges(stream, args.shape.rows, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) route_backward(args, row);
  });
}

}  // namespace hawser::kernels::baseline
