// Group: several independent vectors, to each of which an operation is applied before the next operation
// begins. In a long formula every operation depends on the one before, so with a single vector the processor
// waits for each result. With a group, it works on the other vectors meanwhile. Results have the same bits as
// with single vectors. The operations below accept groups. An argument that is a single vector is used for
// all vectors of the group.
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
