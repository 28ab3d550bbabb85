// GELU, SiLU and their gated forms, element by element in fp32.
#include "kernels/cuda/elements.h"
#include "kernels/cuda/table.h"
#include "kernels/cuda/types.h"

namespace hawser::kernels::cuda {
namespace {

struct ValueAndSlope {
  float value, slope;
};

/// act(x) and act'(x). The normal distribution function uses erfc, which stays accurate where the value is
/// small.
__device__ __forceinline__ ValueAndSlope gelu(float x) {
  constexpr float kSqrtHalf = 0.70710678118654752f, kInvSqrt2Pi = 0.39894228040143268f;
  const float cdf = 0.5f * erfcf(-x * kSqrtHalf);
  return {x * cdf, fmaf(x * kInvSqrt2Pi, expf(-0.5f * x * x), cdf)};
}

/// 1 / (1 + exp(-x)) and its complement, each accurate where it is small.
struct Sigmoid {
  float value, rest;
};

__device__ __forceinline__ Sigmoid sigmoid(float x) {
  const float e = expf(-fabsf(x)), large = 1.0f / (1.0f + e), small = e * large;
  return x > 0 ? Sigmoid{large, small} : Sigmoid{small, large};
}

/// With (1 + tanh(u)) / 2 = sigmoid(2 u).
__device__ __forceinline__ ValueAndSlope gelu_tanh(float x) {
  constexpr float kTwiceSqrt2OverPi = 1.59576912160573072f, kCubic = 0.044715f;
  const Sigmoid s = sigmoid(kTwiceSqrt2OverPi * (x + kCubic * x * x * x));
  const float inner = kTwiceSqrt2OverPi * fmaf(3.0f * kCubic * x, x, 1.0f);
  return {x * s.value, fmaf(x * s.value * s.rest, inner, s.value)};
}

__device__ __forceinline__ ValueAndSlope silu(float x) {
  const Sigmoid s = sigmoid(x);
  return {x * s.value, s.value * fmaf(x, s.rest, 1.0f)};
}

template <Activation kKind>
__device__ __forceinline__ ValueAndSlope activation(float x) {
  if constexpr (kKind == Activation::kSilu) return silu(x);
  if constexpr (kKind == Activation::kGelu) return gelu(x);
  return gelu_tanh(x);
}

/// i counts elements of y; gives the positions of its gate and its other factor in h.
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
      const float value = activation<kKind>(x[k]).value;
      x[k] = a.gated ? value * up[k] : value;
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
      const ValueAndSlope act = activation<kKind>(x[k]);
      y[k] = a.gated ? act.value * up[k] : act.value;
      x[k] = dy[k] * act.slope * (a.gated ? up[k] : 1.0f);
      up[k] = dy[k] * act.value;
    }
    if (a.y != nullptr) store<N>(static_cast<T*>(a.y) + i, y);
    store<N>(dh + gate.gate, x);
    if (a.gated) store<N>(dh + gate.up, up);
  }
};

/// Body is Forward or Backward.
template <template <class, Activation> class Body, class Args>
void run(CudaStream& stream, const char* operation, const Args& args, bool wide) {
  const int64_t n = args.rows * args.f;
  wide = wide && (!args.gated || args.f % kWide == 0);
  for_type(args.type, [&](auto tag) {
    using T = type_of<decltype(tag)>;
    if (args.kind == Activation::kSilu) {
      for_each_element(stream, operation, n, wide, Body<T, Activation::kSilu>{args});
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
