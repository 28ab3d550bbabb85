// Formulas of the activations, over the vectors of a level.
#pragma once

#include HWS_SIMD

#include "kernels/include/activation.h"

namespace hawser::kernels::HWS_LEVEL {
namespace {

template <Activation kKind>
struct Act;

/// The tail of the normal distribution is e^(-x^2/2) erfcx(|x| / sqrt 2) / 2, and erfcx is t P(t), t = 1 / (1
/// + c |x|), after Abramowitz and Stegun 7.1.26, but of degree 9 (relative error 6e-8). Value and slope thus
/// share one exponential, and both stay accurate where they are small.
template <>
struct Act<Activation::kGelu> {
  template <class V>
  static HWS_INLINE V exponential(V x) {
    return vexp2(vmul(vmul(x, x), vset(-0.72134752044448170f)));
  }
  template <class V>
  static HWS_INLINE V cdf(V x, V e) {
    const V t = vdiv(vset(1.0f), vfma(vset(0.33f), vabs(x), vset(1.0f)));
    V p = vfma(t, vset(-0.02080754f), vset(0.123079725f));
    p = vfma(p, t, vset(-0.267185897f));
    p = vfma(p, t, vset(0.22463043f));
    p = vfma(p, t, vset(-0.0565267578f));
    p = vfma(p, t, vset(0.121819265f));
    p = vfma(p, t, vset(0.111065842f));
    p = vfma(p, t, vset(0.132302791f));
    p = vfma(p, t, vset(0.131622165f));
    const V tail = vmul(vmul(p, t), e);
    return vselect_le(x, vset(0.0f), tail, vsub(vset(1.0f), tail));
  }
  template <class V>
  static HWS_INLINE V value(V x) {
    return vmul(x, cdf(x, exponential(x)));
  }
  template <class V>
  static HWS_INLINE void both(V x, V& value, V& slope) {
    const V e = exponential(x), c = cdf(x, e);
    value = vmul(x, c);
    slope = vfma(vmul(x, vset(0.39894228040143268f)), e, c);
  }
};

/// (1 + tanh(u)) / 2 is the sigmoid of 2u, 1 / (1 + e) with e = exp(-2u), and 1 minus that is e / (1 + e):
/// both stay accurate where they are small. Here and below `value` is the value of `both`, bit for bit.
template <>
struct Act<Activation::kGeluTanh> {
  static constexpr float kSqrt2OverPi = 0.79788456080286536f, kCubic = 0.044715f;
  /// Bounds x: beyond 10 the sigmoid is 0 or 1 to precision; up to 10 neither e nor its inverse overflows.
  template <class V>
  static HWS_INLINE V bounded(V x) {
    return vmin(vset(10.0f), vmax(vset(-10.0f), x));
  }
  template <class V>
  static HWS_INLINE V exponential(V b) {
    const V u = vfma(vset(kCubic), vmul(vmul(b, b), b), b);
    return vexp(vmul(vset(-2 * kSqrt2OverPi), u));
  }
  template <class V>
  static HWS_INLINE V sigmoid(V e) {
    return vdiv(vset(1.0f), vadd(vset(1.0f), e));
  }
  template <class V>
  static HWS_INLINE V value(V x) {
    return vmul(x, sigmoid(exponential(bounded(x))));
  }
  template <class V>
  static HWS_INLINE void both(V x, V& value, V& slope) {
    const vf one = vset(1.0f);
    const V b = bounded(x), e = exponential(b), c = sigmoid(e);
    const V inner = vmul(vset(2 * kSqrt2OverPi), vfma(vset(3 * kCubic), vmul(b, b), one));
    value = vmul(x, c);
    slope = vfma(vmul(vmul(b, c), vmul(e, c)), inner, c);
  }
};

template <>
struct Act<Activation::kSilu> {
  template <class V>
  static HWS_INLINE V sigmoid(V x) {
    const vf one = vset(1.0f);
    return vdiv(one, vadd(one, vexp(vneg(x))));
  }
  template <class V>
  static HWS_INLINE V value(V x) {
    return vmul(x, sigmoid(x));
  }
  template <class V>
  static HWS_INLINE void both(V x, V& value, V& slope) {
    const vf one = vset(1.0f);
    const V s = sigmoid(x);
    value = vmul(x, s);
    slope = vmul(s, vfma(x, vsub(one, s), one));
  }
};

/// The smallest number above the limit. Comparisons with it select the gradient 0, so NaN stays NaN.
constexpr float kBeyondLimit = kSiluLimit + 0x1p-21f;

template <>
struct Act<Activation::kClampedSilu> {
  template <class V>
  static HWS_INLINE V bounded(V x) {
    return vmin(vset(kSiluLimit), x);
  }
  template <class V>
  static HWS_INLINE V value(V x) {
    const V b = bounded(x);
    return vmul(b, Act<Activation::kSilu>::sigmoid(vmul(vset(kSiluSlope), b)));
  }
  template <class V>
  static HWS_INLINE void both(V x, V& value, V& slope) {
    const vf one = vset(1.0f);
    const V b = bounded(x), steep = vmul(vset(kSiluSlope), b), s = Act<Activation::kSilu>::sigmoid(steep);
    value = vmul(b, s);
    slope = vselect_le(vset(kBeyondLimit), x, vset(0.0f), vmul(s, vfma(steep, vsub(one, s), one)));
  }
};

/// The up factor of a gated activation, which multiplies the activated gate. Computes it from `up`, and the
/// gradient of `up` from the gradient of the factor.
template <Activation kKind>
struct Factor {
  template <class V>
  static HWS_INLINE V of(V up) {
    return up;
  }
  template <class V>
  static HWS_INLINE V gradient(V d, V /*up*/) {
    return d;
  }
};
template <>
struct Factor<Activation::kClampedSilu> {
  template <class V>
  static HWS_INLINE V of(V up) {
    return vadd(vset(1.0f), vmin(vset(kSiluLimit), vmax(vset(-kSiluLimit), up)));
  }
  template <class V>
  static HWS_INLINE V gradient(V d, V up) {
    return vselect_le(vset(kBeyondLimit), vabs(up), vset(0.0f), d);
  }
};

}  // namespace
}  // namespace hawser::kernels::HWS_LEVEL
