// The arithmetic of one optimizer step for N consecutive elements in a thread's registers, independent of the
// storage of the state. It equals that of kernels/cpu/optimizer_step.h, operation by operation.
#pragma once

#include "kernels/include/optimizer.h"

namespace hawser::kernels::cuda {

/// `a` is an AdamW or AdamWBf16; s has its scalars.
template <int N, class Args>
__device__ __forceinline__ void adamw_step(const Args& a, const OptimizerScalars& s, const float* grad,
                                           float* w, float* m, float* v) {
  const float one_minus_beta1 = 1.0f - a.beta1, one_minus_beta2 = 1.0f - a.beta2, lr = s.lr * a.rate,
              decay = lr * a.weight_decay;
#pragma unroll
  for (int k = 0; k < N; ++k) {
    const float g = grad[k] * s.grad_scale;
    m[k] = fmaf(a.beta1, m[k], one_minus_beta1 * g);
    v[k] = fmaf(a.beta2, v[k], one_minus_beta2 * g * g);
    const float denominator = sqrtf(v[k] / s.bias_correction2) + a.eps;
    w[k] = fmaf(-lr, m[k] / s.bias_correction1 / denominator, fmaf(-decay, w[k], w[k]));
  }
}

/// `a` is an Sgd or SgdBf16; buf is not accessed if a.buf is null.
template <int N, class Args>
__device__ __forceinline__ void sgd_step(const Args& a, const OptimizerScalars& s, const float* grad,
                                         float* w, float* buf) {
  const float lr = s.lr * a.rate;
#pragma unroll
  for (int k = 0; k < N; ++k) {
    const float g = fmaf(a.weight_decay, w[k], grad[k] * s.grad_scale);
    float direction = g;
    if (a.buf != nullptr) {
      buf[k] = fmaf(a.momentum, buf[k], g);
      direction = a.nesterov ? fmaf(a.momentum, buf[k], g) : buf[k];
    }
    w[k] = fmaf(-lr, direction, w[k]);
  }
}

/// `a` is a Lion or LionBf16.
template <int N, class Args>
__device__ __forceinline__ void lion_step(const Args& a, const OptimizerScalars& s, const float* grad,
                                          float* w, float* m) {
  const float one_minus_beta1 = 1.0f - a.beta1, one_minus_beta2 = 1.0f - a.beta2, lr = s.lr * a.rate,
              decay = lr * a.weight_decay;
#pragma unroll
  for (int k = 0; k < N; ++k) {
    const float g = grad[k] * s.grad_scale;
    const float c = fmaf(a.beta1, m[k], one_minus_beta1 * g);
    const float direction = c > 0.0f ? 1.0f : c < 0.0f ? -1.0f : c;  // c itself if it is 0 or not a number
    m[k] = fmaf(a.beta2, m[k], one_minus_beta2 * g);
    w[k] = fmaf(-lr, direction, fmaf(-decay, w[k], w[k]));
  }
}

}  // namespace hawser::kernels::cuda
