// The micro-kernel: a tile of kTileRows x kTileColumns of C stays in registers while the k values of one
// block pass by. Tiles at the lower edge have their own instances with fewer rows; each element is summed
// over k in the same order in all of them.
#pragma once

#include "kernels/cpu/matmul_words.h"

namespace hawser::kernels::HWS_LEVEL {
namespace {

constexpr int kTileColumns = kTileVectors * kLanes;

/// Where the sums of one K block go: out = sums (+ bias) (+ add), fp32 or bf16.
struct TileOutput {
  void* out;
  int64_t ld;
  bool is_bf16;
  const float* add;  ///< may be null; may be `out`
  int64_t add_ld;
  const void* bias;  ///< may be null
  bool bias_is_bf16;
};

HWS_INLINE vf load_either(const void* p, bool is_bf16, int64_t offset, int n) {
  return is_bf16 ? vload_bf16_n(static_cast<const uint16_t*>(p) + offset, n)
                 : vload_n(static_cast<const float*>(p) + offset, n);
}

/// sums: [rows][kTileColumns].
inline void write_tile(const float* sums, const TileOutput& t, int rows, int columns) {
  for (int v = 0; v < kTileVectors; ++v) {
    const int j = v * kLanes, n = columns - j < kLanes ? columns - j : kLanes;
    if (n <= 0) return;
    const vf bias = t.bias == nullptr ? vzero() : load_either(t.bias, t.bias_is_bf16, j, n);
    for (int r = 0; r < rows; ++r) {
      vf x = vload(sums + r * kTileColumns + j);
      if (t.bias != nullptr) x = vadd(x, bias);
      if (t.add != nullptr) {
        const float* add = t.add + r * t.add_ld + j;
        x = vadd(n == kLanes ? vload(add) : vload_n(add, n), x);
      }
      if (t.is_bf16) {
        vstore_bf16_n(static_cast<uint16_t*>(t.out) + r * t.ld + j, x, n);
      } else if (n == kLanes) {
        vstore(static_cast<float*>(t.out) + r * t.ld + j, x);
      } else {
        vstore_n(static_cast<float*>(t.out) + r * t.ld + j, x, n);
      }
    }
  }
}

/// a: panel [words][kTileRows]; b: panel [words][kTileColumns].
template <class Words, int kRows>
void micro_kernel(int64_t words, const float* a, const float* b, const TileOutput& t, int columns) {
  vf sum[kRows][kTileVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kTileVectors; ++v) sum[r][v] = vzero();
  }
  for (int64_t p = 0; p < words; ++p) {
    vf bv[kTileVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kTileVectors; ++v) bv[v] = vload(b + v * kLanes);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const vf av = vset(a[r]);
#pragma GCC unroll 4
      for (int v = 0; v < kTileVectors; ++v) sum[r][v] = Words::multiply_add(av, bv[v], sum[r][v]);
    }
    a += kTileRows;
    b += kTileColumns;
  }
  float sums[kRows * kTileColumns];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kTileVectors; ++v) vstore(sums + r * kTileColumns + v * kLanes, sum[r][v]);
  }
  write_tile(sums, t, kRows, columns);
}

/// micro_kernel of as many rows as exist.
template <class Words, int kRows = kTileRows>
HWS_INLINE void micro_kernel_rows(int rows, int64_t words, const float* a, const float* b,
                                  const TileOutput& t, int columns) {
  if (rows >= kRows) {
    micro_kernel<Words, kRows>(words, a, b, t, columns);
  } else if constexpr (kRows > 1) {
    micro_kernel_rows<Words, kRows - 1>(rows, words, a, b, t, columns);
  }
}

}  // namespace
}  // namespace hawser::kernels::HWS_LEVEL
