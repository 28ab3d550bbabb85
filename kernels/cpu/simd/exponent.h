// The two halves of 2^x for levels without instructions for them. NaN passes through both; values below -151
// or above 127 are clamped to the range of vscale2. The level's header includes this file before math.h.
#pragma once

namespace hawser::kernels::HWS_LEVEL {
namespace {

HWS_INLINE vf vin_reach(vf x) { return vmin(vset(127.0f), vmax(vset(-151.0f), x)); }

/// Return x - floor(x), and a * 2^floor(x).
HWS_INLINE vf vfraction(vf x) { return vsub(vin_reach(x), vfloor(vin_reach(x))); }
HWS_INLINE vf vscale2_whole(vf a, vf x) { return vscale2(a, vfloor(vin_reach(x))); }

}  // namespace
}  // namespace hawser::kernels::HWS_LEVEL
