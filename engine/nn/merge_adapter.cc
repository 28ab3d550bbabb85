// The product of an adapter's factors, added to a weight: of a large model as many operations as some of its steps, so the compiler
// must make vector code of it.
#include <vector>

#include "engine/nn/adapter_factors.h"

namespace hawser::nn {

void merge_adapter(float* weights, const float* a, const float* b, float scale, int64_t out, int64_t in,
                   int64_t rank) {
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
  }
}

}  // namespace hawser::nn
