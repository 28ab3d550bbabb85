// Group: several vectors that take each operation in turn. A processor begins few of the instructions that
// wait for the results of others, so a long formula for one vector after the other waits for each of its
// operations; a formula for a group works on the other vectors meanwhile. The bits are those of single
// vectors. Every operation of the level's header that formulas use accepts groups; arguments that are single
// vectors serve all vectors of a group.
#pragma once

namespace hawser::kernels::HWS_LEVEL {
namespace {

template <int N>
struct Group {
  vf v[N];
};

/// The number of vectors of a group; 0 for a single vector.
template <class V>
constexpr int kGroupSize = 0;
template <int N>
constexpr int kGroupSize<Group<N>> = N;

HWS_INLINE vf part(vf x, int) { return x; }
template <int N>
HWS_INLINE vf part(const Group<N>& x, int i) {
  return x.v[i];
}

#define HWS_GROUPED(name)                                                             \
  template <class... V, int N = (kGroupSize<V> | ...)>                                \
  requires(N > 0) HWS_INLINE Group<N> name(const V&... x) {                           \
    Group<N> y;                                                                       \
    _Pragma("GCC unroll 8") for (int i = 0; i < N; ++i) y.v[i] = name(part(x, i)...); \
    return y;                                                                         \
  }
HWS_GROUPED(vadd)
HWS_GROUPED(vsub)
HWS_GROUPED(vmul)
HWS_GROUPED(vdiv)
HWS_GROUPED(vfma)
HWS_GROUPED(vfnma)
HWS_GROUPED(vmax)
HWS_GROUPED(vmin)
HWS_GROUPED(vabs)
HWS_GROUPED(vneg)
HWS_GROUPED(vcopysign)
HWS_GROUPED(vround)
HWS_GROUPED(vfloor)
HWS_GROUPED(vscale2)
HWS_GROUPED(vscale2_whole)
HWS_GROUPED(vfraction)
HWS_GROUPED(vselect_le)

/// Applies a function to one vector after the other, for rare cases. The group that the caller works on stays
/// in registers: this is a copy.
template <int N>
HWS_NOINLINE Group<N> each_vector_of(vf (*function)(vf), const Group<N>& x) {
  Group<N> y;
  for (int i = 0; i < N; ++i) y.v[i] = function(x.v[i]);
  return y;
}
template <int N>
HWS_INLINE Group<N> each_vector(vf (*function)(vf), Group<N> x) {
  return each_vector_of(function, x);
}

}  // namespace
}  // namespace hawser::kernels::HWS_LEVEL
