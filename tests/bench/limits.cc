// Prints the peak rates of this machine's cores and memory as one JSON object: fp32 and bf16 operations and
// bytes per second. Scripts compare measurements with them.
//
//   bench_limits [THREADS]      (default: 2)
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "tests/bench/machine_limits.h"

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::max(1, std::atoi(argv[1])) : 2;
  const hawser::bench::MachineLimits limits = hawser::bench::measure_limits(threads);
  std::printf("{\"threads\": %d, \"fp32\": %.4g, \"bf16\": %.4g, \"bytes\": %.4g}\n", threads,
              limits.fp32_flops, limits.bf16_flops, limits.bytes_per_second);
  return 0;
}
