// Row norms: computes norms of rows on the host, for the initial magnitudes of an adapter and for merging it.
#include <cmath>

#include "engine/nn/adapter_factors.h"
#include "kernels/include/magnitude.h"

namespace hawser::nn {

void row_norms(float* norms, const float* weights, int64_t out, int64_t in) {
  constexpr int kLanes = kernels::kSquareLanes;
  for (int64_t o = 0; o < out; ++o, weights += in) {
    double sum[kLanes] = {};
    const auto add = [&](int64_t i, int lane) {
      const double w = static_cast<double>(weights[i]);
      sum[lane] += w * w;
    };
    int64_t i = 0;
    for (; i + kLanes <= in; i += kLanes)
      for (int lane = 0; lane < kLanes; ++lane) add(i + lane, lane);
    for (int lane = 0; i + lane < in; ++lane) add(i + lane, lane);
    for (int half = kLanes / 2; half > 0; half /= 2)
      for (int lane = 0; lane < half; ++lane) sum[lane] += sum[lane + half];
    norms[o] = std::sqrt(static_cast<float>(sum[0]));
  }
}

}  // namespace hawser::nn
