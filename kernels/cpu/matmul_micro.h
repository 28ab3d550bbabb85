// The micro-kernel: a tile of kTileRows x kTileColumns of C stays in registers while the kernel iterates over
// the k values of one block. Tiles at the lower edge have separate instances with fewer rows. All instances
// sum each element over k in the same order.
#pragma once

#include "kernels/cpu/matmul_words.h"

namespace hawser::kernels::HWS_LEVEL {
namespace {

constexpr int kTileColumns = kTileVectors * kLanes;

/// Destination of the sums of one K block: out = sums (+ bias) (+ add), of type `type`.
struct TileOutput {
  void* out;
  int64_t ld;
  DType type;
  const float* add;  ///< may be null; may be `out`
  int64_t add_ld;
  const void* bias;  ///< may be null
  DType bias_type;
};

HWS_INLINE vf load_any(const void* p, DType type, int64_t offset, int n) {
  return with_element(
      type, [&](auto element) { return load_n(static_cast<const decltype(element)*>(p) + offset, n); });
}

/// Writes a tile from sums [rows][kTileColumns].
template <class Words>
void write_tile(const float* sums, const TileOutput& t, int rows, int columns) {
  for (int v = 0; v < kTileVectors; ++v) {
    const int j = v * kLanes, n = columns - j < kLanes ? columns - j : kLanes;
    if (n <= 0) return;
    const vf bias = t.bias == nullptr ? vzero() : load_any(t.bias, t.bias_type, j, n);
    for (int r = 0; r < rows; ++r) {
      vf x = vload(sums + r * kTileColumns + j);
      if (t.bias != nullptr) x = vadd(x, bias);
      if (t.add != nullptr) {
        const float* add = t.add + r * t.add_ld + j;
        x = vadd(n == kLanes ? vload(add) : vload_n(add, n), x);
      }
      with_element(t.type, [&](auto element) {
        auto* const out = static_cast<decltype(element)*>(t.out) + r * t.ld + j;
        Words::store_rest(out, x, n);
      });
    }
  }
}

/// Writes a full tile from registers directly, without going through the stack.
template <class Words, int kRows, int kSums>
HWS_INLINE void write_whole_tile(vf (&sum)[kSums][kTileVectors], const TileOutput& t) {
  if (t.bias != nullptr) {
#pragma GCC unroll 4
    for (int v = 0; v < kTileVectors; ++v) {
      const vf bias = load_any(t.bias, t.bias_type, v * kLanes, kLanes);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) sum[r][v] = vadd(sum[r][v], bias);
    }
  }
  if (t.add != nullptr) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kTileVectors; ++v)
        sum[r][v] = vadd(vload(t.add + r * t.add_ld + v * kLanes), sum[r][v]);
    }
  }
  with_element(t.type, [&](auto element) {
    auto* const out = static_cast<decltype(element)*>(t.out);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) Words::store_row(out + r * t.ld, sum[r]);
  });
}

/// Prefetches memory that will be packed next, a line at a time, during the products, because its stored rows
/// are too far apart for the hardware prefetcher. The data go into L1, from which they are evicted to L2.
/// Prefetching into L2 only (prefetcht1) makes packing 1.5 times as slow on a Zen 4.
struct Ahead {
  const char* at = nullptr;
  int64_t row_lines = 0, left_in_row = 0;  ///< cache lines
  int64_t row_bytes = 0;                   ///< between stored rows
  int64_t rows = 0;                        ///< number of rows left
  int64_t words_between = 1 << 30;         ///< words of the micro-kernel from one line to the next

  HWS_INLINE void fetch_one() {
    if (rows <= 0) return;
    __builtin_prefetch(at, 0, 3);
    at += 64;
    if (--left_in_row > 0) return;
    at += row_bytes - 64 * row_lines;
    left_in_row = row_lines;
    --rows;
  }
};

/// Prefetches nothing, at no cost.
struct NothingAhead {};

/// Adds the product of one word of a row panel and one of a column panel to a tile.
template <class Words, int kSums>
HWS_INLINE void multiply_word(const float* a, const float* b, vf (&sum)[kSums][kTileVectors]) {
  vf bv[kTileVectors];
#pragma GCC unroll 4
  for (int v = 0; v < kTileVectors; ++v) bv[v] = vload(b + v * kLanes);
  const TileRowValues<kSums> values(a);
#pragma GCC unroll 16
  for (int r = 0; r < kSums; ++r) {
    const vf av = values[r];
#pragma GCC unroll 4
    for (int v = 0; v < kTileVectors; ++v) sum[r][v] = Words::multiply_add(av, bv[v], sum[r][v]);
  }
}

/// Adds the products of `words` words to a tile, and advances both panel pointers past them. With vectors of
/// 8 lanes, a word has only 12 multiply-adds. The loop is unrolled because otherwise its own instructions
/// cost up to a fifth of the rate while another thread uses the same core.
template <class Words, int kSums>
HWS_INLINE void multiply_words(int64_t words, const float*& a, const float*& b,
                               vf (&sum)[kSums][kTileVectors]) {
  if constexpr (kLanes == 8 && kSums == kTileRows) {
#pragma GCC unroll 4
    for (int64_t p = 0; p < words; ++p, a += kTileRows, b += kTileColumns) multiply_word<Words>(a, b, sum);
  } else {
    for (int64_t p = 0; p < words; ++p, a += kTileRows, b += kTileColumns) multiply_word<Words>(a, b, sum);
  }
}

/// a: panel [words][kTileRows]; b: panel [words][kTileColumns], or in steps of several words (kStepWords).
template <class Words, int kRows, class Next>
void micro_kernel(int64_t words, const float* a, const float* b, const TileOutput& t, int columns,
                  Next& ahead) {
  constexpr int kSums = kRows + kRows % Words::kStepWords;  // a step of two words has tiles of two rows
  vf sum[kSums][kTileVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kSums; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kTileVectors; ++v) sum[r][v] = vzero();
  }
  {  // C was written long ago or never, so prefetch it during the sums
    const char* const c = static_cast<const char*>(t.out);
    const bool wide = t.type == DType::kF32;
    const int64_t row_bytes = wide ? 4 * t.ld : 2 * t.ld, line = wide ? 64 : 2 * kTileColumns - 1;
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      __builtin_prefetch(c + r * row_bytes, 1);
      __builtin_prefetch(c + r * row_bytes + line, 1);
    }
  }
  for (int64_t left = words; left > 0;) {
    int64_t length = left;
    if constexpr (__is_same(Next, Ahead)) {
      if (ahead.words_between < left) length = ahead.words_between;
      ahead.fetch_one();
    }
    left -= length;
    if constexpr (Words::kStepWords > 1) {
      Words::multiply_steps(length, a, b, sum);
    } else {
      multiply_words<Words>(length, a, b, sum);
    }
  }
  if constexpr (Words::kStepWords > 1) Words::make_rows(sum);
  if (columns == kTileColumns) return write_whole_tile<Words, kRows>(sum, t);
  float sums[kRows * kTileColumns];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kTileVectors; ++v) vstore(sums + r * kTileColumns + v * kLanes, sum[r][v]);
  }
  write_tile<Words>(sums, t, kRows, columns);
}

/// Calls micro_kernel for as many rows as exist. At the lower edge, the prefetch comes first: instances of
/// all heights that do both would add 70 KB to the library.
template <class Words, class Next, int kRows = kTileRows>
HWS_INLINE void micro_kernel_rows(int rows, int64_t words, const float* a, const float* b,
                                  const TileOutput& t, int columns, Next& ahead) {
  if (rows >= kRows) {
    micro_kernel<Words, kRows, Next>(words, a, b, t, columns, ahead);
  } else if constexpr (__is_same(Next, Ahead)) {
    for (int64_t left = words; left > 0; left -= ahead.words_between) ahead.fetch_one();
    NothingAhead nothing;
    micro_kernel_rows<Words, NothingAhead, kRows - 1>(rows, words, a, b, t, columns, nothing);
  } else if constexpr (kRows > 1) {
    micro_kernel_rows<Words, Next, kRows - 1>(rows, words, a, b, t, columns, ahead);
  }
}

}  // namespace
}  // namespace hawser::kernels::HWS_LEVEL
