// AdamW, SGD and Lion in one pass over memory; optimizer_step.h has the arithmetic.
#include "kernels/cuda/elements.h"
#include "kernels/cuda/optimizer_step.h"
#include "kernels/cuda/table.h"

namespace hawser::kernels::cuda {
namespace {

struct AdamWStep {
  AdamW a;

  template <int N>
  __device__ void at(int64_t i) const {
    const OptimizerScalars s = *a.scalars;
    float w[N], m[N], v[N], grad[N];
    load<N>(w, a.weight + i);
    load<N>(m, a.m + i);
    load<N>(v, a.v + i);
    load<N>(grad, a.grad + i);
    adamw_step<N>(a, s, grad, w, m, v);
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
    sgd_step<N>(a, s, grad, w, buf);
    store<N>(a.weight + i, w);
    if (a.buf != nullptr) store<N>(a.buf + i, buf);
    if (a.copy != nullptr) store<N>(static_cast<bf16*>(a.copy) + i, w);
  }
};

struct LionStep {
  Lion a;

  template <int N>
  __device__ void at(int64_t i) const {
    const OptimizerScalars s = *a.scalars;
    float w[N], m[N], grad[N];
    load<N>(w, a.weight + i);
    load<N>(m, a.m + i);
    load<N>(grad, a.grad + i);
    lion_step<N>(a, s, grad, w, m);
    store<N>(a.weight + i, w);
    store<N>(a.m + i, m);
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

void lion(const Lion& args, Stream& stream) {
  const bool wide = all_wide({args.weight, args.m, args.grad, args.copy});
  for_each_element(cuda_stream(stream), "lion", args.n, wide, LionStep{args});
}

}  // namespace hawser::kernels::cuda
