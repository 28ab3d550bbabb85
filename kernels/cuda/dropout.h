// Dropout multipliers as defined in kernels/include/dropout.h; they use the same random words as on the CPU.
#pragma once

#include <cuda_runtime.h>

#include "kernels/include/dropout.h"

namespace hawser::kernels::cuda {

__device__ __forceinline__ float kept_scale(const Dropout& dropout) { return 1.0f / (1.0f - dropout.p); }

/// For each of features 4 * block .. 4 * block + 3, true if it is kept.
struct Kept {
  bool feature[4];
};

__device__ __forceinline__ Kept kept_features(const Dropout& dropout, uint64_t sample, uint64_t position,
                                              uint64_t block) {
  const PhiloxBlock words = dropout_words(dropout.key, sample, position, block);
  Kept kept;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    kept.feature[i] = !(philox_uniform(words.v[i]) < dropout.p);
  }
  return kept;
}

/// Computes the multipliers of features j .. j + N - 1. Either N is a multiple of 4 and so is j, or N is 1.
template <int N>
__device__ __forceinline__ void dropout_scales(float* scale, const Dropout& dropout, uint64_t sample,
                                               uint64_t position, int64_t j) {
  const float kept_value = kept_scale(dropout);
  if constexpr (N == 1) {
    const Kept kept = kept_features(dropout, sample, position, static_cast<uint64_t>(j / 4));
    const int64_t at = j % 4;
    const bool here = at == 0   ? kept.feature[0]
                      : at == 1 ? kept.feature[1]
                      : at == 2 ? kept.feature[2]
                                : kept.feature[3];
    scale[0] = here ? kept_value : 0.0f;
  } else {
#pragma unroll
    for (int i = 0; i < N; i += 4) {
      const Kept kept = kept_features(dropout, sample, position, static_cast<uint64_t>((j + i) / 4));
#pragma unroll
      for (int k = 0; k < 4; ++k) scale[i + k] = kept.feature[k] ? kept_value : 0.0f;
    }
  }
}

/// Multiplies x, features j .. j + N - 1 of a row (dropout_row), by their multipliers.
template <int N>
__device__ __forceinline__ void drop_features(float* x, const Dropout& dropout, int64_t seq, int64_t row,
                                              int64_t j) {
  if (dropout.p == 0.0f) return;
  const DropoutRow of = dropout_row(dropout, seq, row);
  float scale[N];
  dropout_scales<N>(scale, dropout, of.sample, of.position, 4 * dropout.first_block + j);
#pragma unroll
  for (int k = 0; k < N; ++k) x[k] *= scale[k];
}

}  // namespace hawser::kernels::cuda
