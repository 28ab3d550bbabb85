// The multipliers of dropout (kernels/include/dropout.h) for a run of neighbouring features, several Philox
// blocks side by side so that the compiler can put them into vector lanes.
#pragma once

#include "kernels/cpu/simd/scalar.h"
#include "kernels/include/dropout.h"

namespace hawser::kernels::HWS_LEVEL {
namespace {

constexpr int kDropoutBlocks = 16;                    ///< Philox blocks made at once
constexpr int kDropoutFeatures = 4 * kDropoutBlocks;  ///< features they cover

/// mask[i] = 0 or 1 / (1 - p) for features 4 * first_block + i, i < kDropoutFeatures, of one position of one
/// sample. The same words as dropout_words, block by block.
inline void dropout_mask(float* mask, float p, uint64_t key, uint64_t sample, uint64_t position,
                         uint64_t first_block) {
  const uint64_t mixed = key ^ (sample * 0x9E3779B97F4A7C15ull);
  uint32_t k0 = static_cast<uint32_t>(mixed), k1 = static_cast<uint32_t>(mixed >> 32);
  uint32_t c0[kDropoutBlocks], c1[kDropoutBlocks], c2[kDropoutBlocks], c3[kDropoutBlocks];
  for (int i = 0; i < kDropoutBlocks; ++i) {
    const uint64_t block = first_block + static_cast<uint64_t>(i);
    c0[i] = static_cast<uint32_t>(position);
    c1[i] = static_cast<uint32_t>(position >> 32);
    c2[i] = static_cast<uint32_t>(block);
    c3[i] = static_cast<uint32_t>(block >> 32);
  }
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < kDropoutBlocks; ++i) {
      const uint64_t p0 = 0xD2511F53ull * c0[i], p1 = 0xCD9E8D57ull * c2[i];
      c0[i] = static_cast<uint32_t>(p1 >> 32) ^ c1[i] ^ k0;
      c2[i] = static_cast<uint32_t>(p0 >> 32) ^ c3[i] ^ k1;
      c1[i] = static_cast<uint32_t>(p1);
      c3[i] = static_cast<uint32_t>(p0);
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  const float kept = 1.0f / (1.0f - p);
  for (int i = 0; i < kDropoutBlocks; ++i) {
    mask[4 * i] = philox_uniform(c0[i]) < p ? 0.0f : kept;
    mask[4 * i + 1] = philox_uniform(c1[i]) < p ? 0.0f : kept;
    mask[4 * i + 2] = philox_uniform(c2[i]) < p ? 0.0f : kept;
    mask[4 * i + 3] = philox_uniform(c3[i]) < p ? 0.0f : kept;
  }
}

}  // namespace
}  // namespace hawser::kernels::HWS_LEVEL
