// Reference for the embedding lookup and its gradient: plain loops over the number type T. Sizes, indices and
// flags are read from the arguments; their other pointers and types are not.
#pragma once

#include "kernels/include/embedding.h"

namespace hawser::kernels {

/// positions_weight may be null.
template <class T>
void embedding_forward_reference(const EmbeddingForward& e, T* x, const T* tokens_weight,
                                 const T* positions_weight) {
  for (int64_t r = 0; r < e.rows; ++r) {
    for (int64_t j = 0; j < e.d; ++j) {
      const int64_t word = e.tokens[r] - e.first_word;
      T value = T(0);
      if (word >= 0 && word < e.words) value = static_cast<double>(e.scale) * tokens_weight[word * e.d + j];
      if (positions_weight != nullptr) value += positions_weight[e.positions[r] * e.d + j];
      x[r * e.d + j] = value;
    }
  }
}

template <class T>
void embedding_backward_reference(const EmbeddingBackward& e, T* dweight, const T* dx) {
  for (int64_t i = 0; i < e.table_rows * e.d && !e.accumulate; ++i) dweight[i] = T(0);
  for (int64_t r = 0; r < e.rows; ++r) {
    const int64_t row = e.index[r] - e.first;
    if (e.index[r] == e.skip || row < 0 || row >= e.table_rows) continue;
    for (int64_t j = 0; j < e.d; ++j) {
      dweight[row * e.d + j] += static_cast<double>(e.scale) * dx[r * e.d + j];
    }
  }
}

}  // namespace hawser::kernels
