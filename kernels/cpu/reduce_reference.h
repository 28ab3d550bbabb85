// Reference for sums: plain loops over the number type T. Sizes and strides are read from the arguments.
#pragma once

#include "kernels/include/reduce.h"

namespace hawser::kernels {

template <class T>
void column_sum_reference(const ColumnSum& a, T* dbias, const T* dy) {
  for (int64_t j = 0; j < a.n; ++j) {
    T sum = a.accumulate ? dbias[j] : T(0);
    for (int64_t r = 0; r < a.rows; ++r) sum += dy[r * a.stride + j];
    dbias[j] = sum;
  }
}

/// Computes the sums of the blocks of kNormBlock elements, in the order of the contract; the exact sum of
/// these is the result.
template <class T>
void sum_of_squares_reference(int64_t n, T* block_sums, const T* g) {
  for (int64_t begin = 0; begin < n; begin += kNormBlock) {
    T sums[16] = {};
    for (int64_t i = begin; i < n && i < begin + kNormBlock; ++i) sums[i % 16] += g[i] * g[i];
    for (int half = 8; half > 0; half /= 2) {
      for (int k = 0; k < half; ++k) sums[k] += sums[k + half];
    }
    block_sums[begin / kNormBlock] = sums[0];
  }
}

}  // namespace hawser::kernels
