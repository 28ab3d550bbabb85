// See register_peak.h. Each loop is compiled for its instruction set alone and runs only where it exists.
#include "tests/kernels/register_peak.h"

#include <immintrin.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

namespace hawser::bench {
namespace {

constexpr int kChains = 12;  // independent sums: more than latency times width of any core
constexpr long kRounds = 6'000'000;
constexpr int kWindows = 3;

using Loop = float (*)();

__attribute__((target("avx512f"))) float multiply_add_avx512() {
  __m512 sum[kChains], a = _mm512_set1_ps(1.000001f), b = _mm512_set1_ps(1e-7f);
  for (auto& s : sum) s = a;
  for (long i = 0; i < kRounds; ++i) {
#pragma GCC unroll 16
    for (auto& s : sum) s = _mm512_fmadd_ps(s, a, b);
    asm volatile("" : "+v"(a), "+v"(b));
  }
  float total = 0;
  for (const auto& s : sum) total += _mm512_cvtss_f32(s);
  return total;
}

__attribute__((target("avx512f,avx512bf16"))) float dot_pairs_avx512() {
  const __m512i ones = _mm512_set1_epi16(0x3f80);
  __m512i a = ones, b = ones;
  __m512 sum[kChains];
  for (auto& s : sum) s = _mm512_setzero_ps();
  for (long i = 0; i < kRounds; ++i) {
#pragma GCC unroll 16
    for (auto& s : sum) s = _mm512_dpbf16_ps(s, (__m512bh)a, (__m512bh)b);
    asm volatile("" : "+v"(a), "+v"(b));
  }
  float total = 0;
  for (const auto& s : sum) total += _mm512_cvtss_f32(s);
  return total;
}

__attribute__((target("avx2,fma"))) float multiply_add_avx2() {
  __m256 sum[kChains], a = _mm256_set1_ps(1.000001f), b = _mm256_set1_ps(1e-7f);
  for (auto& s : sum) s = a;
  for (long i = 0; i < kRounds; ++i) {
#pragma GCC unroll 16
    for (auto& s : sum) s = _mm256_fmadd_ps(s, a, b);
    asm volatile("" : "+v"(a), "+v"(b));
  }
  float total = 0;
  for (const auto& s : sum) total += _mm256_cvtss_f32(s);
  return total;
}

/// Operations per second: the best of a few windows, each as long as its slowest thread.
double rate(int threads, Loop loop, double operations_per_instruction) {
  volatile float sink = 0;
  double best = 1e30;
  for (int window = 0; window < kWindows; ++window) {
    const auto begin = std::chrono::steady_clock::now();
    std::vector<std::thread> others;
    for (int t = 1; t < threads; ++t) {
      others.emplace_back([loop] {
        volatile float mine = loop();
        (void)mine;
      });
    }
    sink = loop();
    for (std::thread& thread : others) thread.join();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  (void)sink;
  return operations_per_instruction * kChains * static_cast<double>(kRounds) * threads / best;
}

}  // namespace

RegisterPeak measure_register_peak(int threads) {
  RegisterPeak peak;
  if (__builtin_cpu_supports("avx512f")) {
    peak.fp32 = rate(threads, multiply_add_avx512, 32);
  } else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    peak.fp32 = rate(threads, multiply_add_avx2, 16);
  }
  if (__builtin_cpu_supports("avx512bf16")) peak.bf16 = rate(threads, dot_pairs_avx512, 64);
  return peak;
}

}  // namespace hawser::bench
