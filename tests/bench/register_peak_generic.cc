// Measures the fp32 peak of cores without a file of their own, with 16-byte vectors that the compiler maps to
// their instructions.
#include "tests/bench/machine_limits.h"

namespace hawser::bench {

double spend_fp32(int64_t rounds) {
  typedef float V __attribute__((vector_size(16)));
  constexpr int kChains = 16;
  V sum[kChains] = {}, a = {0.5f, 0.5f, 0.5f, 0.5f}, b = a * a;
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 16
    for (int c = 0; c < kChains; ++c) sum[c] = sum[c] * a + b;
    asm volatile("" : "+m"(a), "+m"(b));
  }
  static volatile float sink;
  for (const V& s : sum) sink = s[0];
  return 2.0 * 4 * kChains * static_cast<double>(rounds);
}

double spend_bf16(int64_t) { return 0; }

}  // namespace hawser::bench
