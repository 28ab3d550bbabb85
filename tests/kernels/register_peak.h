// What the cores can do at most: a loop of multiply-adds between registers, for benchmarks to stand beside.
#pragma once

namespace hawser::bench {

/// Operations per second of `threads` threads at once (2 per multiply-add); 0 where the processor has no such
/// instruction.
struct RegisterPeak {
  double fp32 = 0;
  double bf16 = 0;  ///< AVX512-BF16's dot product of pairs
};

RegisterPeak measure_register_peak(int threads);

}  // namespace hawser::bench
