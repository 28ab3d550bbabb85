// The limits with which training steps are compared: the peak rates of this machine's cores and memory,
// measured in the same run. None of it is the engine's own code: arithmetic in registers, and plain streams
// of memory.
#pragma once

#include <cstdint>
#include <string>

namespace hawser::bench {

struct MachineLimits {
  double fp32_flops = 0,
         bf16_flops = 0;        ///< per second; bf16 with f32 sums, or fp32's where the cores lack it
  double bytes_per_second = 0;  ///< the best of reading, and of updating three of four arrays in place

  /// The least time of a step in seconds: its arithmetic, then AdamW's 28 bytes per parameter (gradient read;
  /// weight and both moments read and written).
  double step_seconds(const std::string& precision, double flops, int64_t parameters) const;
};

/// Measures on `threads` threads, the best of several windows, because the machine may be shared. Takes about
/// a second.
MachineLimits measure_limits(int32_t threads);

// The build chooses register_peak_x86.cc or register_peak_generic.cc.

/// Multiply-adds of `rounds` times 16 vectors that stay in registers; returns how many operations that were
/// (an addition and a multiplication are two).
double spend_fp32(int64_t rounds);
/// Like spend_fp32, for bf16 pairs with f32 sums; returns 0 if the cores have no such instruction.
double spend_bf16(int64_t rounds);

}  // namespace hawser::bench
