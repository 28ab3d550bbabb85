// GELU, SiLU and their gated forms, element by element in fp32.
#include "kernels/cuda/activation_formulas.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/table.h"
#include "kernels/cuda/types.h"

namespace hawser::kernels::cuda {
namespace {

/// The positions in h of the gate and the other factor of element i of y.
struct Gate {
  int64_t gate, up;
};

__device__ __forceinline__ Gate gate_of(int64_t i, int64_t f, bool gated) {
  if (!gated) return {i, 0};
  const int64_t row = i / f, at = row * 2 * f + (i - row * f);
  return {at, at + f};
}

template <class T, Activation kKind>
struct Forward {
  ActivationForward a;

  template <int N>
  __device__ void at(int64_t i) const {
    const Gate gate = gate_of(i, a.f, a.gated);
    const T* h = static_cast<const T*>(a.h);
    float x[N], up[N] = {};
    load<N>(x, h + gate.gate);
    if (a.gated) load<N>(up, h + gate.up);
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const float value = activation(kKind, x[k]).value;
      x[k] = a.gated ? value * factor(kKind, up[k]).value : value;
    }
    store<N>(static_cast<T*>(a.y) + i, x);
  }
};

template <class T, Activation kKind>
struct Backward {
  ActivationBackward a;

  template <int N>
  __device__ void at(int64_t i) const {
    const Gate gate = gate_of(i, a.f, a.gated);
    const T* h = static_cast<const T*>(a.h);
    T* dh = static_cast<T*>(a.dh);
    float x[N], up[N] = {}, dy[N], y[N];
    load<N>(x, h + gate.gate);
    load<N>(dy, static_cast<const T*>(a.dy) + i);
    if (a.gated) load<N>(up, h + gate.up);
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const ValueAndSlope act = activation(kKind, x[k]);
      const ValueAndSlope other = factor(kKind, up[k]);
      y[k] = a.gated ? act.value * other.value : act.value;
      x[k] = dy[k] * act.slope * (a.gated ? other.value : 1.0f);
      up[k] = dy[k] * act.value * other.slope;
    }
    if (a.y != nullptr) store<N>(static_cast<T*>(a.y) + i, y);
    store<N>(dh + gate.gate, x);
    if (a.gated) store<N>(dh + gate.up, up);
  }
};

/// Queues a kernel. Body is Forward or Backward.
template <template <class, Activation> class Body, class Args>
void run(CudaStream& stream, const char* operation, const Args& args, bool wide) {
  const int64_t n = args.rows * args.f;
  wide = wide && (!args.gated || args.f % kWide == 0);
  for_type(args.type, [&](auto tag) {
    using T = type_of<decltype(tag)>;
    if (args.kind == Activation::kSilu) {
      for_each_element(stream, operation, n, wide, Body<T, Activation::kSilu>{args});
    } else if (args.kind == Activation::kClampedSilu) {
      for_each_element(stream, operation, n, wide, Body<T, Activation::kClampedSilu>{args});
    } else if (args.kind == Activation::kGelu) {
      for_each_element(stream, operation, n, wide, Body<T, Activation::kGelu>{args});
    } else {
      for_each_element(stream, operation, n, wide, Body<T, Activation::kGeluTanh>{args});
    }
  });
}

}  // namespace

void activation_forward(const ActivationForward& args, Stream& stream) {
  run<Forward>(cuda_stream(stream), "activation_forward", args, all_wide({args.y, args.h}));
}

void activation_backward(const ActivationBackward& args, Stream& stream) {
  run<Backward>(cuda_stream(stream), "activation_backward", args,
                all_wide({args.dh, args.dy, args.h, args.y}));
}

}  // namespace hawser::kernels::cuda
