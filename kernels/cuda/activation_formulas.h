// Formulas of the activations and their slopes, in fp32.
#pragma once

#include <cuda_runtime.h>

#include "kernels/include/activation.h"

namespace hawser::kernels::cuda {

struct ValueAndSlope {
  float value, slope;
};

/// Returns act(x) and act'(x). The normal distribution function uses erfc, which stays accurate where the
/// value is small.
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

/// Uses (1 + tanh(u)) / 2 = sigmoid(2 u).
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

__device__ __forceinline__ ValueAndSlope clamped_silu(float x) {
  const float b = x > kSiluLimit ? kSiluLimit : x, steep = kSiluSlope * b;
  const Sigmoid s = sigmoid(steep);
  return {b * s.value, x > kSiluLimit ? 0.0f : s.value * fmaf(steep, s.rest, 1.0f)};
}

/// Returns the up factor of a gated activation, which multiplies the activated gate, and its slope.
__device__ __forceinline__ ValueAndSlope factor(Activation kind, float up) {
  if (kind != Activation::kClampedSilu) return {up, 1.0f};
  const bool beyond = fabsf(up) > kSiluLimit;
  return {1.0f + (beyond ? copysignf(kSiluLimit, up) : up), beyond ? 0.0f : 1.0f};
}

__device__ __forceinline__ ValueAndSlope activation(Activation kind, float x) {
  if (kind == Activation::kClampedSilu) return clamped_silu(x);
  if (kind == Activation::kSilu) return silu(x);
  return kind == Activation::kGelu ? gelu(x) : gelu_tanh(x);
}

}  // namespace hawser::kernels::cuda
