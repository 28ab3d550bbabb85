// Normal formula: the formula of normal_values, compiled for several instruction sets. Multiply-adds are not
// fused, so the vector width does not change a bit. Everything is inlined into its caller, so that
// instruction sets share no function.
#pragma once

#include <bit>
#include <cmath>

#include "engine/base/philox.h"
#include "engine/nn/normal_values.h"

#define HWS_WITHIN [[gnu::always_inline]] static inline

namespace hawser::nn {
namespace {

/// Returns the natural logarithm for x in [2^-24, 1]. As in FreeBSD's e_logf.c: x = 2^e (1 + f), log(1 + f) =
/// f - s (f - R) with s = f / (2 + f).
HWS_WITHIN float logarithm(float x) {
  constexpr uint32_t kSqrtHalf = 0x3f3504f3, kOne = 0x3f800000;
  const uint32_t shifted = std::bit_cast<uint32_t>(x) + (kOne - kSqrtHalf);
  const float e = static_cast<float>(static_cast<int32_t>(shifted >> 23) - 127);
  const float f = std::bit_cast<float>((shifted & 0x7fffff) + kSqrtHalf) - 1.0f;
  const float s = f / (2.0f + f), z = s * s, w = z * z, half = 0.5f * f * f;
  const float r = z * (0.66666662693f + w * 0.28498786688f) + w * (0.40000972152f + w * 0.24279078841f);
  return s * (half + r) + e * 9.0580006145e-6f - half + f + e * 6.9313812256e-1f;
}

/// Computes cosine and sine of 2 pi x for x in [0, 1). Quarter turns are removed exactly; the polynomials are
/// those of Cephes' sinf.c.
HWS_WITHIN void turn(float x, float* cosine, float* sine) {
  const auto quarter = static_cast<int32_t>(4.0f * x + 0.5f);
  const float t = (4.0f * x - static_cast<float>(quarter)) * 1.57079632679f, z = t * t;
  const float s = t + t * z * (-1.6666654611e-1f + z * (8.3321608736e-3f - z * 1.9515295891e-4f));
  const float c = 1.0f - 0.5f * z +
                  z * z * (4.166664568298827e-2f + z * (-1.388731625493765e-3f + z * 2.443315711809948e-5f));
  const auto q = static_cast<uint32_t>(quarter), swap = 0u - (q & 1u);
  const auto a = std::bit_cast<uint32_t>(c), b = std::bit_cast<uint32_t>(s);
  *cosine = std::bit_cast<float>(((a & ~swap) | (b & swap)) ^ (((q + 1) & 2u) << 30));
  *sine = std::bit_cast<float>(((b & ~swap) | (a & swap)) ^ ((q & 2u) << 30));
}

/// Computes the words of philox(key, block + i, 0), round by round, so that adjacent blocks share a vector.
HWS_WITHIN void philox_blocks(uint32_t (&c)[4][kNormalBlocks], uint64_t key, uint64_t block) {
  for (int64_t i = 0; i < kNormalBlocks; ++i) {
    const uint64_t counter = block + static_cast<uint64_t>(i);
    c[0][i] = static_cast<uint32_t>(counter);
    c[1][i] = static_cast<uint32_t>(counter >> 32);
    c[2][i] = c[3][i] = 0;
  }
  auto k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    for (int64_t i = 0; i < kNormalBlocks; ++i) {
      const uint64_t p0 = 0xD2511F53ull * c[0][i], p1 = 0xCD9E8D57ull * c[2][i];
      c[0][i] = static_cast<uint32_t>(p1 >> 32) ^ c[1][i] ^ k0;
      c[1][i] = static_cast<uint32_t>(p1);
      c[2][i] = static_cast<uint32_t>(p0 >> 32) ^ c[3][i] ^ k1;
      c[3][i] = static_cast<uint32_t>(p0);
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
}

HWS_WITHIN void normal_values_by_formula(float* out, uint64_t key, uint64_t block, float std) {
  uint32_t words[4][kNormalBlocks];
  philox_blocks(words, key, block);
  float values[4][kNormalBlocks];
  for (int j = 0; j < 4; j += 2) {
    for (int64_t i = 0; i < kNormalBlocks; ++i) {
      // The first uniform is in (0, 1], so the logarithm is finite.
      const float u =
          1.0f - static_cast<float>(static_cast<int32_t>(words[j][i] >> 8)) * (1.0f / 16777216.0f);
      const float x = static_cast<float>(static_cast<int32_t>(words[j + 1][i] >> 8)) * (1.0f / 16777216.0f);
      const float radius = std * std::sqrt(-2.0f * logarithm(u));
      float cosine, sine;
      turn(x, &cosine, &sine);
      values[j][i] = radius * cosine;
      values[j + 1][i] = radius * sine;
    }
  }
  for (int64_t i = 0; i < kNormalBlocks; ++i)
    for (int j = 0; j < 4; ++j) out[4 * i + j] = values[j][i];
}

}  // namespace
}  // namespace hawser::nn

#undef HWS_WITHIN
