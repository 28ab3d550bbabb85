// Reference for the residual connection with dropout: plain loops over the number type T. Sizes and dropout
// are read from the arguments.
#pragma once

#include "kernels/include/residual.h"

namespace hawser::kernels {

/// Returns the dropout multiplier of feature j of row r.
inline double dropout_factor(const Dropout& dropout, int64_t seq, int64_t r, int64_t j) {
  if (dropout.p == 0.0f) return 1.0;
  const DropoutRow row = dropout_row(dropout, seq, r);
  const PhiloxBlock words = dropout_words(dropout.key, row.sample, row.position,
                                          static_cast<uint64_t>(dropout.first_block + j / 4));
  return philox_uniform(words.v[j % 4]) < dropout.p ? 0.0 : 1.0 / (1.0 - static_cast<double>(dropout.p));
}

/// If branch is null, y = dropout(x).
template <class T>
void residual_forward_reference(const ResidualForward& a, T* y, const T* x, const T* branch) {
  for (int64_t r = 0; r < a.rows; ++r) {
    for (int64_t j = 0; j < a.d; ++j) {
      const int64_t i = r * a.d + j;
      const double factor = dropout_factor(a.dropout, a.seq, r, j);
      y[i] = branch == nullptr ? factor * x[i] : x[i] + factor * branch[i];
    }
  }
}

template <class T>
void residual_backward_reference(const ResidualBackward& a, T* dbranch, const T* dy) {
  for (int64_t r = 0; r < a.rows; ++r) {
    for (int64_t j = 0; j < a.d; ++j) {
      dbranch[r * a.d + j] = dropout_factor(a.dropout, a.seq, r, j) * dy[r * a.d + j];
    }
  }
}

}  // namespace hawser::kernels
