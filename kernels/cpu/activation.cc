// GELU (exact and tanh), SiLU and their gated forms. Element-wise: ranges of rows in parallel, or, for plain
// activations, of elements.
#include HWS_SIMD

#include "kernels/cpu/level.h"
#include "kernels/cpu/parallel.h"

namespace hawser::kernels::HWS_LEVEL {
namespace {

constexpr int64_t kGrain = 8192;  // elements in a task, about

template <Activation kKind>
struct Act;

/// The normal distribution's tail is e^(-x^2/2) erfcx(|x| / sqrt 2) / 2, and erfcx is t P(t), t = 1 / (1 + c
/// |x|), after Abramowitz and Stegun 7.1.26, but of degree 9 (6e-8 relative). So value and slope share one
/// exponential, and both stay accurate where they are small.
template <>
struct Act<Activation::kGelu> {
  static HWS_INLINE vf exponential(vf x) { return vexp2(vmul(vmul(x, x), vset(-0.72134752044448170f))); }
  static HWS_INLINE vf cdf(vf x, vf e) {
    const vf t = vdiv(vset(1.0f), vfma(vset(0.33f), vabs(x), vset(1.0f)));
    vf p = vset(-0.02080754f);
    p = vfma(p, t, vset(0.123079725f));
    p = vfma(p, t, vset(-0.267185897f));
    p = vfma(p, t, vset(0.22463043f));
    p = vfma(p, t, vset(-0.0565267578f));
    p = vfma(p, t, vset(0.121819265f));
    p = vfma(p, t, vset(0.111065842f));
    p = vfma(p, t, vset(0.132302791f));
    p = vfma(p, t, vset(0.131622165f));
    const vf tail = vmul(vmul(p, t), e);
    return vselect_le(x, vset(0.0f), tail, vsub(vset(1.0f), tail));
  }
  static HWS_INLINE vf value(vf x) { return vmul(x, cdf(x, exponential(x))); }
  static HWS_INLINE void both(vf x, vf& value, vf& slope) {
    const vf e = exponential(x), c = cdf(x, e);
    value = vmul(x, c);
    slope = vfma(vmul(x, vset(0.39894228040143268f)), e, c);
  }
};

/// (1 + tanh(u)) / 2 is the sigmoid of 2u, 1 / (1 + e) with e = exp(-2u), and 1 minus that is e / (1 + e):
/// both stay accurate where they are small. Here and below `value` is the value of `both`, bit for bit.
template <>
struct Act<Activation::kGeluTanh> {
  static constexpr float kSqrt2OverPi = 0.79788456080286536f, kCubic = 0.044715f;
  /// Beyond 10 the sigmoid is 0 or 1 to precision; up to 10 neither e nor its inverse overflows.
  static HWS_INLINE vf bounded(vf x) { return vmin(vset(10.0f), vmax(vset(-10.0f), x)); }
  static HWS_INLINE vf exponential(vf b) {
    const vf u = vfma(vset(kCubic), vmul(vmul(b, b), b), b);
    return vexp(vmul(vset(-2 * kSqrt2OverPi), u));
  }
  static HWS_INLINE vf sigmoid(vf e) { return vdiv(vset(1.0f), vadd(vset(1.0f), e)); }
  static HWS_INLINE vf value(vf x) { return vmul(x, sigmoid(exponential(bounded(x)))); }
  static HWS_INLINE void both(vf x, vf& value, vf& slope) {
    const vf b = bounded(x), e = exponential(b), c = sigmoid(e), one = vset(1.0f);
    const vf inner = vmul(vset(2 * kSqrt2OverPi), vfma(vset(3 * kCubic), vmul(b, b), one));
    value = vmul(x, c);
    slope = vfma(vmul(vmul(b, c), vmul(e, c)), inner, c);
  }
};

template <>
struct Act<Activation::kSilu> {
  static HWS_INLINE vf sigmoid(vf x) {
    const vf one = vset(1.0f);
    return vdiv(one, vadd(one, vexp(vneg(x))));
  }
  static HWS_INLINE vf value(vf x) { return vmul(x, sigmoid(x)); }
  static HWS_INLINE void both(vf x, vf& value, vf& slope) {
    const vf s = sigmoid(x), one = vset(1.0f);
    value = vmul(x, s);
    slope = vmul(s, vfma(x, vsub(one, s), one));
  }
};

/// y[j] = act(h[j]) (* up[j] if gated), j < n.
template <Activation kKind, bool kGated, class E>
void forward_range(E* y, const E* h, const E* up, int64_t n) {
  int64_t j = 0;
  for (; j + kLanes <= n; j += kLanes) {
    const vf value = Act<kKind>::value(load(h + j));
    store(y + j, kGated ? vmul(value, load(up + j)) : value);
  }
  if (j == n) return;
  const int rest = static_cast<int>(n - j);
  const vf value = Act<kKind>::value(load_n(h + j, rest));
  store_n(y + j, kGated ? vmul(value, load_n(up + j, rest)) : value, rest);
}

/// What one range of rows, or of elements, of a backward call reads and writes; y may be null.
template <class E>
struct BackwardRange {
  E *dh, *dup, *y;
  const E *dy, *h, *up;
};

/// Element j, or `n` < kLanes of them where they are the last.
template <Activation kKind, bool kGated, bool kWhole, class E>
HWS_INLINE void backward_vector(const BackwardRange<E>& r, int64_t j, int n) {
  const auto read = [&](const E* p) { return kWhole ? load(p + j) : load_n(p + j, n); };
  const auto write = [&](E* p, vf x) { kWhole ? store(p + j, x) : store_n(p + j, x, n); };
  vf value, slope;
  const vf grad = read(r.dy);
  Act<kKind>::both(read(r.h), value, slope);
  const vf up = kGated ? read(r.up) : grad;
  if (r.y != nullptr) write(r.y, kGated ? vmul(value, up) : value);
  if (kGated) write(r.dup, vmul(grad, value));
  write(r.dh, vmul(kGated ? vmul(grad, up) : grad, slope));
}

/// dh[j] = dy[j] * act'(h[j]) (* up[j], and dup[j] = dy[j] * act(h[j]) if gated), and y as in forward_range,
/// j < n.
template <Activation kKind, bool kGated, class E>
void backward_range(const BackwardRange<E>& r, int64_t n) {
  int64_t j = 0;
  for (; j + kLanes <= n; j += kLanes) backward_vector<kKind, kGated, true>(r, j, kLanes);
  if (j < n) backward_vector<kKind, kGated, false>(r, j, static_cast<int>(n - j));
}

template <Activation kKind, class E>
void forward(const ActivationForward& a, Stream& stream) {
  E* y = static_cast<E*>(a.y);
  const E* h = static_cast<const E*>(a.h);
  const int64_t f = a.f;
  if (!a.gated) {
    parallel_ranges(stream, a.rows * f, kGrain, [&](int64_t begin, int64_t end) {
      forward_range<kKind, false>(y + begin, h + begin, h, end - begin);
    });
    return;
  }
  parallel_ranges(stream, a.rows, f < kGrain ? kGrain / f : 1, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      forward_range<kKind, true>(y + r * f, h + 2 * r * f, h + (2 * r + 1) * f, f);
    }
  });
}

template <Activation kKind, class E>
void backward(const ActivationBackward& a, Stream& stream) {
  E* dh = static_cast<E*>(a.dh);
  const E* dy = static_cast<const E*>(a.dy);
  const E* h = static_cast<const E*>(a.h);
  const auto y_from = [&](int64_t i) { return a.y == nullptr ? nullptr : static_cast<E*>(a.y) + i; };
  const int64_t f = a.f;
  if (!a.gated) {
    parallel_ranges(stream, a.rows * f, kGrain, [&](int64_t begin, int64_t end) {
      const BackwardRange<E> range = {dh + begin, nullptr, y_from(begin), dy + begin, h + begin, nullptr};
      backward_range<kKind, false>(range, end - begin);
    });
    return;
  }
  parallel_ranges(stream, a.rows, f < kGrain ? kGrain / f : 1, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t gate = 2 * r * f, up = gate + f;
      const BackwardRange<E> range = {dh + gate, dh + up, y_from(r * f), dy + r * f, h + gate, h + up};
      backward_range<kKind, true>(range, f);
    }
  });
}

template <class E>
void forward_kind(const ActivationForward& a, Stream& stream) {
  switch (a.kind) {
    case Activation::kGelu:
      return forward<Activation::kGelu, E>(a, stream);
    case Activation::kGeluTanh:
      return forward<Activation::kGeluTanh, E>(a, stream);
    case Activation::kSilu:
      return forward<Activation::kSilu, E>(a, stream);
  }
}

template <class E>
void backward_kind(const ActivationBackward& a, Stream& stream) {
  switch (a.kind) {
    case Activation::kGelu:
      return backward<Activation::kGelu, E>(a, stream);
    case Activation::kGeluTanh:
      return backward<Activation::kGeluTanh, E>(a, stream);
    case Activation::kSilu:
      return backward<Activation::kSilu, E>(a, stream);
  }
}

}  // namespace

void activation_forward(const ActivationForward& args, Stream& stream) {
  if (args.rows <= 0 || args.f <= 0) return;
  if (args.type == DType::kBf16) return forward_kind<uint16_t>(args, stream);
  forward_kind<float>(args, stream);
}

void activation_backward(const ActivationBackward& args, Stream& stream) {
  if (args.rows <= 0 || args.f <= 0) return;
  if (args.type == DType::kBf16) return backward_kind<uint16_t>(args, stream);
  backward_kind<float>(args, stream);
}

}  // namespace hawser::kernels::HWS_LEVEL
