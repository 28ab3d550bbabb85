// AdamW and SGD, one pass over memory; the arithmetic of kernels/cpu/optimizer.cc, operation by operation.
#include "kernels/cuda/elements.h"
#include "kernels/cuda/table.h"

namespace hawser::kernels::cuda {
namespace {

struct AdamWStep {
  AdamW a;

  template <int N>
  __device__ void at(int64_t i) const {
    const OptimizerScalars s = *a.scalars;
    const float one_minus_beta1 = 1.0f - a.beta1, one_minus_beta2 = 1.0f - a.beta2,
                decay = s.lr * a.weight_decay;
    float w[N], m[N], v[N], grad[N];
    load<N>(w, a.weight + i);
    load<N>(m, a.m + i);
    load<N>(v, a.v + i);
    load<N>(grad, a.grad + i);
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const float g = grad[k] * s.grad_scale;
      m[k] = fmaf(a.beta1, m[k], one_minus_beta1 * g);
      v[k] = fmaf(a.beta2, v[k], one_minus_beta2 * g * g);
      const float denominator = sqrtf(v[k] / s.bias_correction2) + a.eps;
      w[k] = fmaf(-s.lr, m[k] / s.bias_correction1 / denominator, fmaf(-decay, w[k], w[k]));
    }
    store<N>(a.weight + i, w);
    store<N>(a.m + i, m);
    store<N>(a.v + i, v);
    if (a.copy != nullptr) store<N>(static_cast<bf16*>(a.copy) + i, w);
  }
};

struct SgdStep {
  Sgd a;

  template <int N>
  __device__ void at(int64_t i) const {
    const OptimizerScalars s = *a.scalars;
    float w[N], buf[N], grad[N];
    load<N>(w, a.weight + i);
    load<N>(grad, a.grad + i);
    if (a.buf != nullptr) load<N>(buf, a.buf + i);
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const float g = fmaf(a.weight_decay, w[k], grad[k] * s.grad_scale);
      float direction = g;
      if (a.buf != nullptr) {
        buf[k] = fmaf(a.momentum, buf[k], g);
        direction = a.nesterov ? fmaf(a.momentum, buf[k], g) : buf[k];
      }
      w[k] = fmaf(-s.lr, direction, w[k]);
    }
    store<N>(a.weight + i, w);
    if (a.buf != nullptr) store<N>(a.buf + i, buf);
    if (a.copy != nullptr) store<N>(static_cast<bf16*>(a.copy) + i, w);
  }
};

}  // namespace

void adamw(const AdamW& args, Stream& stream) {
  const bool wide = all_wide({args.weight, args.m, args.v, args.grad, args.copy});
  for_each_element(cuda_stream(stream), "adamw", args.n, wide, AdamWStep{args});
}

void sgd(const Sgd& args, Stream& stream) {
  const bool wide = all_wide({args.weight, args.buf, args.grad, args.copy});
  for_each_element(cuda_stream(stream), "sgd", args.n, wide, SgdStep{args});
}

}  // namespace hawser::kernels::cuda
