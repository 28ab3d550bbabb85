// One row of x + dropout(branch), for the residual kernel and for the norm that computes it in the same pass.
#pragma once

#include "kernels/cpu/dropout_mask.h"
#include "kernels/include/residual.h"
#include HWS_SIMD

namespace hawser::kernels::HWS_LEVEL {
namespace {

/// Multipliers of consecutive features of a row; 1 without dropout.
struct RowMask {
  float value[kDropoutFeatures];
  RowMask() {
    for (float& v : value) v = 1.0f;
  }
};

/// Calls body(column, n, keep) for pieces of at most kLanes columns of row r; keep holds their multipliers.
template <class Body>
HWS_INLINE void each_piece(const Dropout& dropout, int64_t r, int64_t d, int64_t seq, RowMask& mask,
                           const Body& body) {
  for (int64_t j0 = 0; j0 < d; j0 += kDropoutFeatures) {
    if (dropout.p > 0.0f) {
      const DropoutRow row = dropout_row(dropout, seq, r);
      dropout_mask(mask.value, dropout.p, dropout.key, row.sample, row.position,
                   static_cast<uint64_t>(dropout.first_block + j0 / 4));
    }
    const int64_t features = d - j0 < kDropoutFeatures ? d - j0 : kDropoutFeatures;
    for (int64_t j = 0; j < features; j += kLanes) {
      const int n = features - j < kLanes ? static_cast<int>(features - j) : kLanes;
      body(j0 + j, n, vload(mask.value + j));
    }
  }
}

template <class X, class T>
void residual_row(const ResidualForward& a, int64_t r, RowMask& mask) {
  const int64_t begin = r * a.d;
  const T* branch = static_cast<const T*>(a.branch) + begin;
  const X* x = static_cast<const X*>(a.x) + begin;
  X* y = static_cast<X*>(a.y) + begin;
  each_piece(a.dropout, r, a.d, a.seq, mask, [&](int64_t j, int n, vf keep) {
    store_n(y + j, vadd(load_n(x + j, n), vmul(load_n(branch + j, n), keep)), n);
  });
}

/// Returns the function for these types.
inline auto residual_row_of(const ResidualForward& a) {
  using Row = void (*)(const ResidualForward&, int64_t, RowMask&);
  return with_element(a.branch_type, [&](auto branch) -> Row {
    using Branch = decltype(branch);
    if (a.type == DType::kBf16) return residual_row<uint16_t, Branch>;
    return residual_row<float, Branch>;
  });
}

}  // namespace
}  // namespace hawser::kernels::HWS_LEVEL
