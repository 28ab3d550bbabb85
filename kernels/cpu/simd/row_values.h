// TileRowValues for levels on which one instruction loads a value into all lanes. The level's header includes
// this file after math.h.
#pragma once

namespace hawser::kernels::HWS_LEVEL {
namespace {

/// The values of op(a) for the rows of a tile, each in all lanes of a vector.
template <int kRows>
struct TileRowValues {
  const float* a;
  HWS_INLINE explicit TileRowValues(const float* values) : a(values) {}
  HWS_INLINE vf operator[](int r) const { return vset(a[r]); }
};

}  // namespace
}  // namespace hawser::kernels::HWS_LEVEL
