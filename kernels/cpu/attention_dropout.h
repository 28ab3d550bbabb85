// Dropout masks for tiles of probabilities, key by key, sixteen queries at a time
// (kernels/include/dropout.h).
#pragma once

#include "kernels/cpu/attention_mask.h"

namespace hawser::kernels::HWS_LEVEL {
namespace {

// Philox blocks are computed together: those of kMaskQueries queries and two blocks of four keys.
constexpr int kMaskQueries = 16, kMaskKeys = 8, kSideBySide = 32;

/// Rows before and after a tile that its mask may write, if the first key of a piece is not in a column that
/// begins a Philox block.
constexpr int kKeepBefore = 4, kKeepAfter = kMaskKeys;
constexpr int64_t kKeepFloats = int64_t{kKeepBefore + kTile + kKeepAfter} * kTile;

/// Runs one round of Philox on kSideBySide counters. It is a separate function, so that the compiler sees
/// arrays that do not overlap and can vectorise the loop.
__attribute__((noinline)) void philox_round(uint32_t* __restrict c0, uint32_t* __restrict c1,
                                            uint32_t* __restrict c2, uint32_t* __restrict c3, uint32_t k0,
                                            uint32_t k1) {
  for (int i = 0; i < kSideBySide; ++i) {
    const uint64_t p0 = 0xD2511F53ull * c0[i], p1 = 0xCD9E8D57ull * c2[i];
    c0[i] = static_cast<uint32_t>(p1 >> 32) ^ c1[i] ^ k0;
    c2[i] = static_cast<uint32_t>(p0 >> 32) ^ c3[i] ^ k1;
    c1[i] = static_cast<uint32_t>(p1);
    c3[i] = static_cast<uint32_t>(p0);
  }
}

/// Sets keep[j * kTile + i] to 0 if column 4 * block + j of (query[i], head[i]) is dropped, else to 1; j <
/// kMaskKeys, i < kMaskQueries. Uses the words of dropout_words for position (first_head + head, q_offset +
/// query).
inline void dropout_block(float* keep, const AttentionShape& s, uint64_t key, const int32_t* query,
                          const int32_t* head, uint64_t block) {
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  uint32_t c0[kSideBySide], c1[kSideBySide], c2[kSideBySide], c3[kSideBySide];
  for (int i = 0; i < kSideBySide; ++i) {
    const uint64_t at = block + static_cast<uint64_t>(i / kMaskQueries);
    c0[i] = static_cast<uint32_t>(s.q_offset + query[i % kMaskQueries]);
    c1[i] = static_cast<uint32_t>(s.first_head + head[i % kMaskQueries]);
    c2[i] = static_cast<uint32_t>(at);
    c3[i] = static_cast<uint32_t>(at >> 32);
  }
  for (int round = 0; round < 10; ++round) {
    philox_round(c0, c1, c2, c3, k0, k1);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  // This is philox_uniform(word) < p in integers: p * 2^24 is exact, and a word's lowest 8 bits are ignored.
  const float scaled = s.dropout.p * 16777216.0f;
  const auto whole = static_cast<uint32_t>(scaled);
  const uint32_t limit = (static_cast<float>(whole) < scaled ? whole + 1 : whole) << 8;
  const uint32_t* words[4] = {c0, c1, c2, c3};
  for (int j = 0; j < kMaskKeys; ++j) {
    typedef uint32_t Words __attribute__((vector_size(kMaskQueries * 4)));
    Words w;
    __builtin_memcpy(&w, words[j % 4] + j / 4 * kMaskQueries, sizeof(w));
    w = reinterpret_cast<Words>(w >= limit) & 0x3f800000u;  // the bits of 1
    __builtin_memcpy(keep + j * kTile, &w, sizeof(w));
  }
}

/// Sets keep[key][query] to 0 if dropped, else to 1, for the working range of the tile and slightly beyond:
/// from row -kKeepBefore to row kTile + kKeepAfter.
inline void dropout_tile(float* keep, const AttentionShape& s, int64_t b, const QueryTile& q,
                         const KeyTile& k) {
  static_assert(kTile % kMaskKeys == 0 && kTile % kMaskQueries == 0);
  static_assert(kKeepBefore >= 4 && kKeepAfter >= kMaskKeys - 1);
  const uint64_t key = s.dropout.key ^ (s.dropout.samples[b] * 0x9E3779B97F4A7C15ull);
  const int in_block = static_cast<int>(s.k_offset % 4);  // position of the tile's first column in its block
  for (int c = 0; c < q.vecs; c += kMaskQueries / kLanes) {
    const int end = c + kMaskQueries / kLanes;
    int first = kTile, last = 0;
    for (int v = c; v < end; ++v) {
      if (k.vec[v].first == k.vec[v].last) continue;
      first = k.vec[v].first < first ? k.vec[v].first : first;
      last = k.vec[v].last > last ? k.vec[v].last : last;
    }
    for (int row = first / kMaskKeys * kMaskKeys - in_block; row < last; row += kMaskKeys) {
      const int i = c * kLanes;
      dropout_block(keep + row * kTile + i, s, key, q.query + i, q.head + i,
                    static_cast<uint64_t>(s.k_offset + k.start + row) / 4);
    }
  }
}

}  // namespace
}  // namespace hawser::kernels::HWS_LEVEL
