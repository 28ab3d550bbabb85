// Measures the peaks of x86-64 with 16 chains of multiply-adds, enough to hide any latency, in the widest
// registers available.
#include <immintrin.h>

#include "tests/bench/machine_limits.h"

namespace hawser::bench {
namespace {

constexpr int kChains = 16;
volatile float sink;

__attribute__((target("avx512f"))) double spend_512(int64_t rounds) {
  __m512 sum[kChains], a = _mm512_set1_ps(0.5f), b = _mm512_set1_ps(0.25f);
  for (__m512& s : sum) s = b;
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 16
    for (int c = 0; c < kChains; ++c) sum[c] = _mm512_fmadd_ps(sum[c], a, b);
    asm volatile("" : "+v"(a), "+v"(b));
  }
  for (const __m512& s : sum) sink = _mm512_cvtss_f32(s);
  return 2.0 * 16 * kChains * static_cast<double>(rounds);
}

__attribute__((target("avx2,fma"))) double spend_256(int64_t rounds) {
  constexpr int kFewer = 12;  // AVX2 has 16 registers, and operands need some of them
  __m256 sum[kFewer], a = _mm256_set1_ps(0.5f), b = _mm256_set1_ps(0.25f);
  for (__m256& s : sum) s = b;
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 16
    for (int c = 0; c < kFewer; ++c) sum[c] = _mm256_fmadd_ps(sum[c], a, b);
    asm volatile("" : "+x"(a), "+x"(b));
  }
  for (const __m256& s : sum) sink = _mm256_cvtss_f32(s);
  return 2.0 * 8 * kFewer * static_cast<double>(rounds);
}

double spend_128(int64_t rounds) {
  constexpr int kFewer = 12;
  __m128 sum[kFewer], a = _mm_set1_ps(0.5f), b = _mm_set1_ps(0.25f);
  for (__m128& s : sum) s = b;
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 16
    for (int c = 0; c < kFewer; ++c) sum[c] = _mm_add_ps(_mm_mul_ps(sum[c], a), b);
    asm volatile("" : "+x"(a), "+x"(b));
  }
  for (const __m128& s : sum) sink = _mm_cvtss_f32(s);
  return 2.0 * 4 * kFewer * static_cast<double>(rounds);
}

__attribute__((target("avx512f,avx512bf16"))) double spend_pairs(int64_t rounds) {
  __m512 sum[kChains];
  __m512i a = _mm512_set1_epi16(0x3e80), b = _mm512_set1_epi16(0x3d80);
  for (__m512& s : sum) s = _mm512_setzero_ps();
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 16
    for (int c = 0; c < kChains; ++c) sum[c] = _mm512_dpbf16_ps(sum[c], (__m512bh)a, (__m512bh)b);
    asm volatile("" : "+v"(a), "+v"(b));
  }
  for (const __m512& s : sum) sink = _mm512_cvtss_f32(s);
  return 4.0 * 16 * kChains * static_cast<double>(rounds);
}

}  // namespace

double spend_fp32(int64_t rounds) {
  if (__builtin_cpu_supports("avx512f")) return spend_512(rounds);
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return spend_256(rounds);
  return spend_128(rounds);
}

double spend_bf16(int64_t rounds) { return __builtin_cpu_supports("avx512bf16") ? spend_pairs(rounds) : 0; }

}  // namespace hawser::bench
