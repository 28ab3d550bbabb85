// Column sums as loops, over the number type T. Sizes and strides are those of the arguments.
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

}  // namespace hawser::kernels
