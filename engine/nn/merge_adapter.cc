// Merge adapter: adds the product of an adapter's factors to a weight. For a large model this takes as many
// operations as some training steps, so the compiler must vectorise it.
#include <vector>

#include "engine/nn/adapter_factors.h"

namespace hawser::nn {

void merge_adapter(float* weights, const float* a, const float* b, const float* m, float scale, int64_t out,
                   int64_t in, int64_t rank) {
  std::vector<float> row(static_cast<size_t>(in));
  float* const sum = row.data();
  for (int64_t o = 0; o < out; ++o, weights += in) {
    for (int64_t i = 0; i < in; ++i) sum[i] = 0;
    for (int64_t r = 0; r < rank; ++r) {
      const float factor = b[o * rank + r];
      const float* const from = a + r * in;
      for (int64_t i = 0; i < in; ++i) sum[i] += factor * from[i];
    }
    for (int64_t i = 0; i < in; ++i) weights[i] += scale * sum[i];
    if (m == nullptr) continue;
    float norm = 0;
    row_norms(&norm, weights, 1, in);
    const float factor = norm == 0 ? 1 : m[o] / norm;
    for (int64_t i = 0; i < in; ++i) weights[i] *= factor;
  }
}

}  // namespace hawser::nn
