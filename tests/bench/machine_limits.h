// What this machine could do at best, measured in the same run as the benchmark it is printed beside.
#pragma once

#include <cstdint>
#include <string>

namespace hawser::bench {

struct MachineLimits {
  double fp32_flops = 0;        ///< matrix products, operations per second
  double bf16_flops = 0;        ///< the same with bf16 operands
  double bytes_per_second = 0;  ///< memory bandwidth

  /// Seconds of one training step that does `flops` operations in matrix products and an AdamW update of
  /// `parameters` (28 bytes each: gradient, weight and two moments read, weight and moments written), if
  /// nothing else took time.
  double step_seconds(const std::string& precision, double flops, int64_t parameters) const;
};

/// Measures for about `seconds` with `threads` threads.
MachineLimits measure_limits(int32_t threads, double seconds);

}  // namespace hawser::bench
