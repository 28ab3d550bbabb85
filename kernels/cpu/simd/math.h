// exp, 2^x and tanh in terms of the vector operations of a level, and the typed loads and stores. Each
// level's header includes this file at its end. The polynomials are minimax fits (Remez) to the functions
// named next to them; errors are within a few units in the last place of the result. V is a vector or a
// group of vectors.
#pragma once

#include "kernels/cpu/simd/group.h"

namespace hawser::kernels::HWS_LEVEL {
namespace {

/// Levels without an instruction for a * 2^n define vscale2_near for groups: it is faster than vscale2 but
/// only for |n| <= 125, and for |a| in [0.5, 2]. Both give the same bits.
/// vwithin(x, b) is true if |x| <= b in all lanes; it is false for NaN.
template <class V>
concept ScalesNear = requires(V x) {
  vscale2_near(x, x);
};
template <class V>
HWS_INLINE V vscaled(V a, V n) {
  if constexpr (ScalesNear<V>) {
    return vscale2_near(a, n);
  } else {
    return vscale2(a, n);
  }
}

/// e^x: 0 below -104 (so also for -inf), infinity above 89, NaN for NaN.
template <class V>
HWS_INLINE V vexp(V x) {
  if constexpr (ScalesNear<V>) {
    if (!vwithin(x, 86.0f)) return each_vector(vexp<vf>, x);
  } else {
    x = vmin(vset(89.0f), vmax(vset(-104.0f), x));  // NaN passes: vmin and vmax return their second operand
                                                    // if they cannot order the two
  }
  const V n = vround(vmul(x, vset(1.44269504f)));
  // n * ln 2 in two parts; the first has few bits, so that n times it is exact.
  const V r = vfnma(n, vset(-2.12194440e-4f), vfnma(n, vset(0.693359375f), x));
  // (e^r - 1 - r) / r^2 on |r| <= ln 2 / 2
  V p = vfma(r, vset(0.00138144626249f), vset(0.00836878045449f));
  p = vfma(p, r, vset(0.0416683942926f));
  p = vfma(p, r, vset(0.166665201075f));
  p = vfma(p, r, vset(0.499999934122f));
  p = vfma(vmul(p, r), r, r);
  return vscaled<V>(vadd(p, vset(1.0f)), n);
}

/// 2^x: 0 below -150 (so also for -inf), exactly 1 at 0, 2^127 above 127, NaN for NaN.
template <class V>
HWS_INLINE V vexp2(V x) {
  if constexpr (ScalesNear<V>) {
    if (!vwithin(x, 125.0f)) return each_vector(vexp2<vf>, x);
  } else {
    x = vmin(vset(127.0f), vmax(vset(-151.0f), x));  // NaN passes through
  }
  const V n = vround(x), r = vsub(x, n);
  // (2^r - 1) / r on |r| <= 1/2
  V p = vfma(r, vset(0.001326472690803621f), vset(0.009671512660418742f));
  p = vfma(p, r, vset(0.05550733744213416f));
  p = vfma(p, r, vset(0.24022242084922407f));
  p = vfma(p, r, vset(0.6931469775984953f));
  return vscaled<V>(vfma(p, r, vset(1.0f)), n);
}

/// 2^x with less precision, for values that will be rounded to bf16: relative errors of 3e-6 (degree 4) and
/// 9e-5 (degree 3); at least 2^127 above 127.
template <int kDegree, class V>
HWS_INLINE V vexp2_coarse(V x) {
  constexpr float kSeries[2][4] = {// (2^r - 1) / r on 0 <= r <= 1, from the highest power down
                                   {0.0770670421f, 0.227644991f, 0.695116786f},
                                   {0.0134266843f, 0.0522424743f, 0.241280205f, 0.693044845f}};
  if constexpr (ScalesNear<V>) {
    if (!vwithin(x, 124.0f)) return each_vector(vexp2_coarse<kDegree, vf>, x);
  }
  const V r = vfraction(x);
  V p = vfma(r, vset(kSeries[kDegree - 3][0]), vset(kSeries[kDegree - 3][1]));
#pragma GCC unroll 3
  for (int i = 2; i < kDegree; ++i) p = vfma(p, r, vset(kSeries[kDegree - 3][i]));
  return vscale2_whole(vfma(p, r, vset(1.0f)), x);
}

template <class V>
HWS_INLINE V vtanh(V x) {
  const V a = vabs(x), t = vmul(x, x);
  // (tanh(x) / x - 1) / x^2 over x^2 on |x| <= 0.625
  V p = vfma(t, vset(-0.00570497781614f), vset(0.0206390778925f));
  p = vfma(p, t, vset(-0.0537397117286f));
  p = vfma(p, t, vset(0.13331442149f));
  p = vfma(p, t, vset(-0.333332819396f));
  const V small = vfma(vmul(p, t), x, x);
  const V e = vexp(vadd(a, a));
  const V large = vsub(vset(1.0f), vdiv(vset(2.0f), vadd(e, vset(1.0f))));
  return vselect_le(a, vset(0.625f), small, vcopysign(large, x));
}

// Typed access, for templates over the element type: float, uint16_t that holds bfloat16, or Half. The _n
// forms access only the first n elements (0 <= n <= kLanes); the other lanes read as 0.
HWS_INLINE vf load(const float* p) { return vload(p); }
HWS_INLINE vf load(const uint16_t* p) { return vload_bf16(p); }
HWS_INLINE vf load(const Half* p) { return vload_f16(p); }
HWS_INLINE vf load_n(const float* p, int n) { return vload_n(p, n); }
HWS_INLINE vf load_n(const uint16_t* p, int n) { return vload_bf16_n(p, n); }
HWS_INLINE vf load_n(const Half* p, int n) { return vload_f16_n(p, n); }
HWS_INLINE void store(float* p, vf v) { vstore(p, v); }
HWS_INLINE void store(uint16_t* p, vf v) { vstore_bf16(p, v); }
HWS_INLINE void store(Half* p, vf v) { vstore_f16(p, v); }
HWS_INLINE void store_n(float* p, vf v, int n) { vstore_n(p, v, n); }
HWS_INLINE void store_n(uint16_t* p, vf v, int n) { vstore_bf16_n(p, v, n); }
HWS_INLINE void store_n(Half* p, vf v, int n) { vstore_f16_n(p, v, n); }

// Consecutive vectors.
template <int N, class E>
HWS_INLINE Group<N> load_group(const E* p) {
  Group<N> x;
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) x.v[i] = load(p + i * kLanes);
  return x;
}
template <int N, class E>
HWS_INLINE void store(E* p, const Group<N>& x) {
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) store(p + i * kLanes, x.v[i]);
}

// The same for element-wise work, which may give the elements to lanes in any order; it is the same order for
// all arrays of one type.
template <int N, class E>
HWS_INLINE Group<N> load_any_order(const E* p) {
  return load_group<N>(p);
}
template <int N, class E>
HWS_INLINE void store_any_order(E* p, const Group<N>& x) {
  store(p, x);
}

// Scalar access by the same element types.
HWS_INLINE float load_scalar(const float* p) { return *p; }
HWS_INLINE float load_scalar(const uint16_t* p) { return bf16_to_f32(*p); }
HWS_INLINE float load_scalar(const Half* p) { return f16_to_f32(static_cast<uint16_t>(*p)); }
HWS_INLINE void store_scalar(float* p, float x) { *p = x; }
HWS_INLINE void store_scalar(uint16_t* p, float x) { *p = f32_to_bf16(x); }
HWS_INLINE void store_scalar(Half* p, float x) { *p = static_cast<Half>(f32_to_f16(x)); }

/// Returns x rounded to the element type E.
template <class E>
HWS_INLINE vf through(vf x) {
  if constexpr (__is_same(E, float)) {
    return x;
  } else {
    E rounded[kLanes];
    store(rounded, x);
    return load(rounded);
  }
}
template <class E>
HWS_INLINE float through_scalar(float x) {
  E rounded;
  store_scalar(&rounded, x);
  return load_scalar(&rounded);
}

/// Calls body(element), where `element` is a value of the C++ type that holds a DType: float, uint16_t
/// (bfloat16) or Half. Arrays of one call have one narrow type, so if another of them has the narrow type N,
/// this one is f32 or N.
template <class N, class Body>
HWS_INLINE auto with_element_beside(DType type, const Body& body) {
  if constexpr (!__is_same(N, Half)) {
    if (type == DType::kBf16) return body(uint16_t{});
  }
  if constexpr (!__is_same(N, uint16_t)) {
    if (type == DType::kF16) return body(Half{});
  }
  return body(float{});
}
template <class Body>
HWS_INLINE auto with_element(DType type, const Body& body) {
  return with_element_beside<float>(type, body);
}

/// The narrow type of two element types, or float.
template <class A, class B>
struct NarrowOf {
  using Type = A;
};
template <class B>
struct NarrowOf<float, B> {
  using Type = B;
};

}  // namespace
}  // namespace hawser::kernels::HWS_LEVEL
