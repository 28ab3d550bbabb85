// Philox4x32-10, the counter-based generator behind all randomness (Salmon et al., "Parallel random numbers:
// as easy as 1, 2, 3", SC 2011). Kernels of CPU levels use it, and levels must not share code, so everything
// has internal linkage and the header includes no C++ library header.
#pragma once

#include <stdint.h>

namespace hawser {

struct PhiloxBlock {
  uint32_t v[4];
};

/// Four random words for a 128-bit counter under a 64-bit key.
static constexpr inline PhiloxBlock philox(uint64_t key, uint64_t counter_low, uint64_t counter_high) {
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  uint32_t c0 = static_cast<uint32_t>(counter_low), c1 = static_cast<uint32_t>(counter_low >> 32);
  uint32_t c2 = static_cast<uint32_t>(counter_high), c3 = static_cast<uint32_t>(counter_high >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = 0xD2511F53ull * c0, p1 = 0xCD9E8D57ull * c2;
    const uint32_t n0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0,
                   n2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<uint32_t>(p1);
    c3 = static_cast<uint32_t>(p0);
    c0 = n0;
    c2 = n2;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

/// Converts a word to a float in [0, 1): 24 bits, so every value is representable.
static constexpr inline float philox_uniform(uint32_t word) {
  return static_cast<float>(word >> 8) * (1.0f / 16777216.0f);
}

/// Derives a key from a key and two words by one Philox block: for keys such as (seed, layer, site).
static constexpr inline uint64_t philox_derive(uint64_t key, uint64_t a, uint64_t b) {
  const PhiloxBlock r = philox(key, a, b);
  return static_cast<uint64_t>(r.v[0]) | (static_cast<uint64_t>(r.v[1]) << 32);
}

}  // namespace hawser
