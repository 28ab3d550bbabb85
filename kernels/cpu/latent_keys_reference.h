// Reference for keys and values of latent attention, over the number type T; strides are in elements of T.
#pragma once

#include "kernels/include/latent_keys.h"

namespace hawser::kernels {

template <class T>
void latent_keys_reference(const LatentShape& s, T* k, T* v, const T* up, const T* shared) {
  for (int64_t r = 0; r < s.rows; ++r) {
    for (int64_t h = 0; h < s.heads; ++h) {
      const T* const of_head = up + (r * s.heads + h) * s.up_head();
      for (int64_t j = 0; j < s.key_head(); ++j)
        k[r * s.kv_stride + h * s.key_head() + j] =
            j < s.own ? of_head[j] : shared[r * s.shared_stride + j - s.own];
      for (int64_t j = 0; j < s.value; ++j) v[r * s.kv_stride + h * s.value + j] = of_head[s.own + j];
    }
  }
}

template <class T>
void latent_keys_backward_reference(const LatentShape& s, T* d_up, T* d_shared, const T* dk, const T* dv) {
  for (int64_t r = 0; r < s.rows; ++r) {
    for (int64_t j = 0; j < s.shared; ++j) d_shared[r * s.shared_stride + j] = T(0);
    for (int64_t h = 0; h < s.heads; ++h) {
      T* const of_head = d_up + (r * s.heads + h) * s.up_head();
      const T* const key = dk + r * s.kv_stride + h * s.key_head();
      for (int64_t j = 0; j < s.own; ++j) of_head[j] = key[j];
      for (int64_t j = 0; j < s.value; ++j) of_head[s.own + j] = dv[r * s.kv_stride + h * s.value + j];
      for (int64_t j = 0; j < s.shared; ++j) d_shared[r * s.shared_stride + j] += key[s.own + j];
    }
  }
}

}  // namespace hawser::kernels
