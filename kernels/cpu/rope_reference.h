// Reference for rotary embedding: the formula of its paper, over the number type T. Sizes, positions and
// angles are read from the arguments.
#pragma once

#include "kernels/include/rope.h"

namespace hawser::kernels {

/// Rotates x in place; strides are in elements of T. The backward is the inverse rotation.
template <class T>
void rope_reference(const Rope& a, T* x) {
  const int64_t half = a.d / 2;
  for (int64_t r = 0; r < a.rows; ++r) {
    for (int64_t h = 0; h < a.heads; ++h) {
      T* head = x + r * a.stride + h * a.between_heads();
      for (int64_t j = 0; j < half; ++j) {
        const float* angle = a.cos_sin + (a.positions[r] * half + j) * 2;
        const double cosine = angle[0], sine = a.inverse ? -angle[1] : angle[1];
        T &first = head[a.interleaved ? 2 * j : j], &second = head[a.interleaved ? 2 * j + 1 : half + j];
        const T low = first, high = second;
        first = low * cosine - high * sine;
        second = high * cosine + low * sine;
      }
    }
  }
}

}  // namespace hawser::kernels
