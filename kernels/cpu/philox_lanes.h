// Philox (engine/base/philox.h) in vector lanes: one block in each 64-bit lane. The low half of a lane is a
// word of the state; the next product ignores the high half.
#pragma once

#include "engine/base/philox.h"
#include HWS_SIMD

namespace hawser::kernels::HWS_LEVEL {
namespace {

constexpr int kBlocksPerVector = kLanes / 2;
constexpr int kPhiloxVectors = 2;  ///< two vectors, to hide latency
constexpr int kBlocksSideBySide = kPhiloxVectors * kBlocksPerVector;

typedef uint32_t vwords __attribute__((vector_size(kLanes * sizeof(uint32_t))));

struct PhiloxLanes {
  vu64 c[kPhiloxVectors][4];
};

HWS_INLINE vu64 in_all_lanes(uint64_t x) { return vu64{} + x; }

/// Returns the counters of blocks first_block and on. Their order in the lanes makes interleaved_words
/// ascend: the first of each pair of lanes, then the second of each.
HWS_INLINE PhiloxLanes counters(uint64_t position, uint64_t first_block) {
  vu64 order;
  for (int i = 0; i < kBlocksPerVector; ++i) {
    order[i] = static_cast<uint64_t>(i / 2 + i % 2 * (kBlocksPerVector / 2));
  }
  PhiloxLanes x;
#pragma GCC unroll 2
  for (int v = 0; v < kPhiloxVectors; ++v) {
    const vu64 block = order + (first_block + static_cast<uint64_t>(v * kBlocksPerVector));
    x.c[v][0] = in_all_lanes(position);
    x.c[v][1] = in_all_lanes(position >> 32);
    x.c[v][2] = block;
    x.c[v][3] = block >> 32;
  }
  return x;
}

/// Runs the ten rounds of philox().
HWS_INLINE void philox_rounds(PhiloxLanes& x, uint64_t key) {
  const vu64 multiplier0 = in_all_lanes(0xD2511F53u), multiplier1 = in_all_lanes(0xCD9E8D57u);
  vu64 k0 = in_all_lanes(key), k1 = in_all_lanes(key >> 32);
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round) {
#pragma GCC unroll 2
    for (int v = 0; v < kPhiloxVectors; ++v) {
      vu64* c = x.c[v];
      const vu64 p0 = vmul_low_halves(c[0], multiplier0), p1 = vmul_low_halves(c[2], multiplier1);
      c[0] = (p1 >> 32) ^ c[1] ^ k0;
      c[2] = (p0 >> 32) ^ c[3] ^ k1;
      c[1] = p1;
      c[3] = p0;
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
}

/// Returns half of the 4 * kBlocksPerVector words of one vector of blocks, in the order of features, which
/// fills one vector: the first half, or the second.
HWS_INLINE vwords interleaved_words(const vu64 c[4], bool second) {
  const vu64 c01 = (c[0] & 0xffffffffu) | (c[1] << 32), c23 = (c[2] & 0xffffffffu) | (c[3] << 32);
  return (vwords)(second ? vsecond_of_pairs(c01, c23) : vfirst_of_pairs(c01, c23));
}

}  // namespace
}  // namespace hawser::kernels::HWS_LEVEL
