// Reference for the activations: the formulas of their papers, over the number type T (double,
// std::complex<double>).
#pragma once

#include "kernels/cpu/reference_number.h"
#include "kernels/include/activation.h"

namespace hawser::kernels {

template <class T>
struct ValueAndSlope {
  T value, slope;
};

/// Returns act(x) and act'(x).
template <class T>
ValueAndSlope<T> activation_reference(Activation kind, const T& x) {
  constexpr double kSqrtHalf = 0.70710678118654752440, kInvSqrt2Pi = 0.39894228040143267794;
  constexpr double kSqrt2OverPi = 0.79788456080286535588, kCubic = 0.044715;
  if (kind == Activation::kSilu) {
    const T sigmoid = T(1) / (T(1) + std::exp(-x));
    return {x * sigmoid, sigmoid * (T(1) + x * (T(1) - sigmoid))};
  }
  if (kind == Activation::kClampedSilu) {
    const bool below = !(std::real(x) > kSiluLimit);
    const double slope = kSiluSlope;
    const T b = below ? x : T(kSiluLimit), sigmoid = T(1) / (T(1) + std::exp(-slope * b));
    return {b * sigmoid, below ? sigmoid * (T(1) + slope * b * (T(1) - sigmoid)) : T(0)};
  }
  if (kind == Activation::kGelu) {
    const T cdf = 0.5 * (T(1) + reference_erf(x * kSqrtHalf));
    return {x * cdf, cdf + x * kInvSqrt2Pi * std::exp(-0.5 * x * x)};
  }
  const T t = std::tanh(kSqrt2OverPi * (x + kCubic * x * x * x));
  const T inner = kSqrt2OverPi * (T(1) + 3 * kCubic * x * x);
  return {0.5 * x * (T(1) + t), 0.5 * (T(1) + t) + 0.5 * x * (T(1) - t * t) * inner};
}

/// Returns the up factor of a gated activation, which multiplies the activated gate, and its slope.
template <class T>
ValueAndSlope<T> factor_reference(Activation kind, const T& up) {
  if (kind != Activation::kClampedSilu) return {up, T(1)};
  if (std::real(up) > kSiluLimit) return {T(1 + kSiluLimit), T(0)};
  if (std::real(up) < -kSiluLimit) return {T(1 - kSiluLimit), T(0)};
  return {T(1) + up, T(1)};
}

template <class T>
void activation_forward_reference(const ActivationForward& a, T* y, const T* h) {
  for (int64_t r = 0; r < a.rows; ++r) {
    const T* row = h + r * a.f * (a.gated ? 2 : 1);
    for (int64_t j = 0; j < a.f; ++j) {
      const T value = activation_reference(a.kind, row[j]).value;
      y[r * a.f + j] = a.gated ? value * factor_reference(a.kind, row[a.f + j]).value : value;
    }
  }
}

template <class T>
void activation_backward_reference(const ActivationBackward& a, T* dh, const T* dy, const T* h,
                                   T* y = nullptr) {
  for (int64_t r = 0; r < a.rows; ++r) {
    const int64_t at = r * a.f * (a.gated ? 2 : 1);
    for (int64_t j = 0; j < a.f; ++j) {
      const ValueAndSlope<T> act = activation_reference(a.kind, h[at + j]);
      const T grad = dy[r * a.f + j];
      const ValueAndSlope<T> up =
          a.gated ? factor_reference(a.kind, h[at + a.f + j]) : ValueAndSlope<T>{T(1), T(0)};
      if (y != nullptr) y[r * a.f + j] = act.value * up.value;
      if (a.gated) {
        dh[at + a.f + j] = grad * act.value * up.slope;
        dh[at + j] = grad * up.value * act.slope;
      } else {
        dh[at + j] = grad * act.slope;
      }
    }
  }
}

}  // namespace hawser::kernels
