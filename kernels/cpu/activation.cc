// GELU (exact and tanh), SiLU and their gated forms. They are element-wise: ranges of rows run in parallel
// or, for activations without a gate, ranges of elements.
#include "kernels/cpu/activation_formulas.h"
#include "kernels/cpu/level.h"
#include "kernels/cpu/parallel.h"

namespace hawser::kernels::HWS_LEVEL {
namespace {

constexpr int64_t kGrain = 8192;  // approximate number of elements in a task

/// The data that one range of rows, or of elements, of a call reads and writes. Without a gate `up` and `dup`
/// are unused; in a forward call dy, dh and dup are unused; y of a backward call may be null.
template <class E>
struct Range {
  E *y, *dh, *dup;
  const E *dy, *h, *up;
};

/// A function that works on n elements, whole vectors. It is called by a pointer, so that the loops over rows
/// are compiled once for all formulas.
template <class E>
using Vectors = void (*)(const Range<E>& r, int64_t n);

constexpr int kGroup = 4;

/// Access to a single vector, or to the vectors of a group.
template <class V, class E>
HWS_INLINE V load_as(const E* p) {
  if constexpr (kGroupSize<V> != 0) {
    return load_any_order<kGroupSize<V>>(p);
  } else {
    return load(p);
  }
}
template <class E>
HWS_INLINE void store_as(E* p, vf x) {
  store(p, x);
}
template <int N, class E>
HWS_INLINE void store_as(E* p, const Group<N>& x) {
  store_any_order(p, x);
}

/// Calls body(j, v) for the vectors of n elements: groups on levels where they make exponentials faster, then
/// single vectors. Only the type of v matters: it is the type that body must load and store. The clamped
/// activation has no groups, to save code: models have it in their experts (expert_activation.cc).
template <Activation kKind, class Body>
HWS_INLINE void for_vectors(int64_t n, const Body& body) {
  int64_t j = 0;
  if constexpr (ScalesNear<Group<kGroup>> && kKind != Activation::kClampedSilu)
    for (; j + kGroup * kLanes <= n; j += kGroup * kLanes) body(j, Group<kGroup>{});
  for (; j < n; j += kLanes) body(j, vzero());
}

/// y[j] = act(h[j]) (* the factor of up[j] if gated).
template <Activation kKind, bool kGated, class E>
void forward_vectors(const Range<E>& r, int64_t n) {
  for_vectors<kKind>(
      n, [&](int64_t j, auto type) __attribute__((always_inline)) {
        using V = decltype(type);
        const auto value = Act<kKind>::value(load_as<V>(r.h + j));
        store_as(r.y + j, kGated ? vmul(value, Factor<kKind>::of(load_as<V>(r.up + j))) : value);
      });
}

/// dh[j] = dy[j] * act'(h[j]) (* the factor of up[j] if gated, and dup[j] its gradient), and y as above.
template <Activation kKind, bool kGated, class E>
void backward_vectors(const Range<E>& r, int64_t n) {
  for_vectors<kKind>(
      n, [&](int64_t j, auto type) __attribute__((always_inline)) {
        using V = decltype(type);
        V value, slope;
        const auto grad = load_as<V>(r.dy + j);
        Act<kKind>::both(load_as<V>(r.h + j), value, slope);
        const auto up = kGated ? load_as<V>(r.up + j) : grad;
        const auto factor = Factor<kKind>::of(up);
        if (r.y != nullptr) store_as(r.y + j, kGated ? vmul(value, factor) : value);
        if (kGated) store_as(r.dup + j, Factor<kKind>::gradient(vmul(grad, value), up));
        store_as(r.dh + j, vmul(kGated ? vmul(grad, factor) : grad, slope));
      });
}

/// Copies the elements of the last vector of a range into a padded vector. The padding is zero. Null stays
/// null.
template <class E>
struct Rest {
  E at[kLanes];
  Rest(const E* from, int64_t n) {
    for (int i = 0; i < kLanes; ++i) at[i] = from != nullptr && i < n ? from[i] : static_cast<E>(0);
  }
  void put(E* to, int64_t n) const {
    for (int64_t i = 0; to != nullptr && i < n; ++i) to[i] = at[i];
  }
};

/// Runs `vectors` on n elements, of which the last ones may not fill a vector.
template <class E>
HWS_SMALL void run_range(Vectors<E> vectors, const Range<E>& r, int64_t n) {
  const int64_t whole = n / kLanes * kLanes, rest = n - whole;
  vectors(r, whole);
  if (rest == 0) return;
  const auto past = [&](auto* p) { return p == nullptr ? nullptr : p + whole; };
  Rest<E> y(past(r.y), rest), dh(past(r.dh), rest), dup(past(r.dup), rest);
  const Rest<E> dy(past(r.dy), rest), h(past(r.h), rest), up(past(r.up), rest);
  vectors({r.y == nullptr ? nullptr : y.at, dh.at, dup.at, dy.at, h.at, up.at}, kLanes);
  y.put(past(r.y), rest);
  dh.put(past(r.dh), rest);
  dup.put(past(r.dup), rest);
}

/// Runs a call. Args: ActivationForward or ActivationBackward. range_at(i) returns the pointers of the call
/// at element i of y.
template <class E, class Args, class RangeAt>
void run(const Args& a, Stream& stream, Vectors<E> vectors, const RangeAt& range_at) {
  const int64_t f = a.f;
  if (!a.gated) {
    parallel_ranges(stream, a.rows * f, kGrain, [&](int64_t begin, int64_t end) {
      run_range(vectors, range_at(begin, begin), end - begin);
    });
    return;
  }
  parallel_ranges(stream, a.rows, f < kGrain ? kGrain / f : 1, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) run_range(vectors, range_at(r * f, 2 * r * f), f);
  });
}

template <class E>
void forward(const ActivationForward& a, Stream& stream) {
  using enum Activation;
  constexpr Vectors<E> kVectors[][2] = {
      {forward_vectors<kGelu, false, E>, forward_vectors<kGelu, true, E>},
      {forward_vectors<kGeluTanh, false, E>, forward_vectors<kGeluTanh, true, E>},
      {forward_vectors<kSilu, false, E>, forward_vectors<kSilu, true, E>},
      {nullptr, forward_vectors<kClampedSilu, true, E>},
  };
  run(a, stream, kVectors[static_cast<int>(a.kind)][a.gated], [&](int64_t at_y, int64_t at_h) {
    const E* const h = static_cast<const E*>(a.h) + at_h;
    return Range<E>{static_cast<E*>(a.y) + at_y, nullptr, nullptr, nullptr, h, a.gated ? h + a.f : nullptr};
  });
}

template <class E>
void backward(const ActivationBackward& a, Stream& stream) {
  using enum Activation;
  constexpr Vectors<E> kVectors[][2] = {
      {backward_vectors<kGelu, false, E>, backward_vectors<kGelu, true, E>},
      {backward_vectors<kGeluTanh, false, E>, backward_vectors<kGeluTanh, true, E>},
      {backward_vectors<kSilu, false, E>, backward_vectors<kSilu, true, E>},
      {nullptr, backward_vectors<kClampedSilu, true, E>},
  };
  run(a, stream, kVectors[static_cast<int>(a.kind)][a.gated], [&](int64_t at_y, int64_t at_h) {
    const E* const h = static_cast<const E*>(a.h) + at_h;
    E* const dh = static_cast<E*>(a.dh) + at_h;
    return Range<E>{a.y == nullptr ? nullptr : static_cast<E*>(a.y) + at_y,
                    dh,
                    a.gated ? dh + a.f : nullptr,
                    static_cast<const E*>(a.dy) + at_y,
                    h,
                    a.gated ? h + a.f : nullptr};
  });
}

}  // namespace

void activation_forward(const ActivationForward& args, Stream& stream) {
  if (args.rows <= 0 || args.f <= 0) return;
  with_element(args.type, [&](auto element) { forward<decltype(element)>(args, stream); });
}

void activation_backward(const ActivationBackward& args, Stream& stream) {
  if (args.rows <= 0 || args.f <= 0) return;
  with_element(args.type, [&](auto element) { backward<decltype(element)>(args, stream); });
}

}  // namespace hawser::kernels::HWS_LEVEL
