// Reference for attention sinks, over the number type T; strides are in elements of T.
#pragma once

#include <cmath>

#include "kernels/include/attention_sinks.h"

namespace hawser::kernels {

template <class T>
void sink_forward_reference(const SinkRows& s, T* o, T* lse, const T* sinks) {
  using std::exp;
  using std::log;
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t h = 0; h < s.heads; ++h) {
      for (int64_t t = 0; t < s.seq; ++t) {
        T& own = lse[(b * s.heads + h) * s.seq + t];
        const T all = log(exp(own) + exp(sinks[h]));
        for (int64_t j = 0; j < s.value_dim; ++j)
          o[(b * s.seq + t) * s.o_stride + h * s.value_dim + j] *= exp(own - all);
        own = all;
      }
    }
  }
}

/// Computes all columns of the rows' terms.
template <class T>
void sink_backward_reference(const SinkBackward& a, T* terms, const T* dout, const T* o, const T* lse,
                             const T* sinks) {
  using std::exp;
  const SinkRows& s = a.s;
  for (int64_t row = 0; row < s.batch * s.seq; ++row) {
    for (int64_t c = 0; c < a.columns; ++c) {
      T& term = terms[row * a.columns + c] = T(0);
      const int64_t h = c - a.first;
      if (h < 0 || h >= s.heads) continue;
      for (int64_t j = 0; j < s.value_dim; ++j) {
        const int64_t at = row * s.o_stride + h * s.value_dim + j;
        term -= exp(sinks[h] - lse[(row / s.seq * s.heads + h) * s.seq + row % s.seq]) * dout[at] * o[at];
      }
    }
  }
}

}  // namespace hawser::kernels
