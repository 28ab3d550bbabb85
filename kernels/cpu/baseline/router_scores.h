// Computes the scores of one row of a router.
#pragma once

#include HWS_SIMD

#include "kernels/include/router.h"

namespace hawser::kernels::HWS_LEVEL {
namespace {

constexpr int64_t kScoreRoom = kMaxExperts + kLanes;

/// p[n] = softmax(z); p must have room for the rest of the last vector. Returns the log-sum-exp of z.
inline float softmax_of(float* p, const float* z, int64_t n) {
  float max = z[0];
  for (int64_t e = 1; e < n; ++e) max = z[e] > max ? z[e] : max;
  float sum = 0;
  for (int64_t e = 0; e < n; e += kLanes) {
    const int lanes = static_cast<int>(n - e < kLanes ? n - e : kLanes);
    vstore(p + e, vexp(vsub(vload_n(z + e, lanes), vset(max))));
    for (int i = 0; i < lanes; ++i) sum += p[e + i];
  }
  const float factor = 1.0f / sum;
  for (int64_t e = 0; e < n; ++e) p[e] *= factor;
  return max + static_cast<float>(__builtin_log(static_cast<double>(sum)));
}

inline void scores_of(float* score, const float* z, const RouterShape& s) {
  if (s.score == RouterScore::kSoftmax) {
    softmax_of(score, z, s.experts);
    return;
  }
  const vf one = vset(1.0f);
  for (int64_t e = 0; e < s.experts; e += kLanes) {
    const int lanes = static_cast<int>(s.experts - e < kLanes ? s.experts - e : kLanes);
    vstore(score + e, vdiv(one, vadd(one, vexp(vneg(vload_n(z + e, lanes))))));
  }
}

}  // namespace
}  // namespace hawser::kernels::HWS_LEVEL
