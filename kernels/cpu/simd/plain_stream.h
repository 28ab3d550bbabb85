// vstream for levels whose narrow vectors are shorter than a cache line: it stores through the caches. The
// level's header includes this file after math.h.
#pragma once

namespace hawser::kernels::HWS_LEVEL {
namespace {

/// Stores two vectors as E at p.
template <class E>
HWS_INLINE void vstream(E* p, vf first, vf second) {
  store(p, first);
  store(p + kLanes, second);
}
HWS_INLINE void vstream_end() {}

}  // namespace
}  // namespace hawser::kernels::HWS_LEVEL
