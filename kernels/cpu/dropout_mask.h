// Computes dropout multipliers (kernels/include/dropout.h) for a range of consecutive features.
#pragma once

#include "kernels/cpu/philox_lanes.h"
#include "kernels/include/dropout.h"
#include HWS_SIMD

namespace hawser::kernels::HWS_LEVEL {
namespace {

constexpr int kDropoutBlocks = 16;                    ///< Philox blocks computed at once
constexpr int kDropoutFeatures = 4 * kDropoutBlocks;  ///< features that they cover
static_assert(kDropoutBlocks % kBlocksSideBySide == 0);

/// Sets mask[i] to 0 or 1 / (1 - p) for features 4 * first_block + i, i < kDropoutFeatures, of one position
/// of one sample. Uses the words of dropout_words, block by block.
inline void dropout_mask(float* mask, float p, uint64_t key, uint64_t sample, uint64_t position,
                         uint64_t first_block) {
  // This is philox_uniform(word) < p in integers: p * 2^24 is exact, and a word's lowest 8 bits are ignored.
  const float scaled = p * 16777216.0f;
  const auto whole = static_cast<uint32_t>(scaled);
  const uint32_t limit = (static_cast<float>(whole) < scaled ? whole + 1 : whole) << 8;
  const uint32_t kept = float_bits(1.0f / (1.0f - p));
  for (int block = 0; block < kDropoutBlocks; block += kBlocksSideBySide) {
    PhiloxLanes x = counters(position, first_block + static_cast<uint64_t>(block));
    philox_rounds(x, key ^ (sample * 0x9E3779B97F4A7C15ull));
#pragma GCC unroll 2
    for (int v = 0; v < kPhiloxVectors; ++v) {
      float* out = mask + 4 * (block + v * kBlocksPerVector);
      const vwords first = interleaved_words(x.c[v], false), second = interleaved_words(x.c[v], true);
      vstore(out, (vf)((vwords)(first >= limit) & kept));
      vstore(out + kLanes, (vf)((vwords)(second >= limit) & kept));
    }
  }
}

}  // namespace
}  // namespace hawser::kernels::HWS_LEVEL
