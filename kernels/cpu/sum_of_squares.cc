// The exact sum of squares for gradient norms: short fp64 sums over fixed blocks in vector lanes, then three
// integer additions per block, whose time is hidden behind the reading of g.
#include "kernels/cpu/level.h"
#include "kernels/cpu/parallel.h"
#include HWS_SIMD

namespace hawser::kernels::HWS_LEVEL {
namespace {

constexpr int kSums = 16;  ///< sums of one block, side by side
constexpr int kDoubles = kLanes / 2, kVectors = kSums / kDoubles;
constexpr int64_t kMinBlocks = 256;  ///< blocks in one task: 64 KiB
constexpr int64_t kAhead = 4096;     ///< bytes: the processor itself reads ahead only within a page

/// Sums the squares of kNormBlock elements. A square is exact, so every level gets the same bits, with or
/// without fused multiply-add.
HWS_INLINE double block_sum(const float* g) {
  vd sums[kVectors];
#pragma GCC unroll 16
  for (int v = 0; v < kVectors; ++v) {
    const vd x = vload_widened(g + v * kDoubles);
    sums[v] = x * x;
  }
#pragma GCC unroll 16
  for (int i = kSums; i < kNormBlock; i += kSums) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      const vd x = vload_widened(g + i + v * kDoubles);
      sums[v] = vfma(x, x, sums[v]);
    }
  }
#pragma GCC unroll 16
  for (int half = kVectors / 2; half > 0; half /= 2) {
#pragma GCC unroll 16
    for (int v = 0; v < half; ++v) sums[v] += sums[v + half];
  }
  return vsum(sums[0]);
}

HWS_INLINE void widen(float* wide, const uint16_t* g) {
#pragma GCC unroll 16
  for (int i = 0; i < kNormBlock; i += kLanes) vstore(wide + i, vload_bf16(g + i));
}

/// Overwrites *sum with the sum of the squares of n elements of args.g from `begin` on. bf16 is widened a
/// block at a time, so that both types share one loop.
void task_sum(ExactSum* sum, const SumOfSquares& args, int64_t begin, int64_t n) {
  __builtin_memset(static_cast<void*>(sum), 0, sizeof(*sum));
  const bool narrow = args.type == DType::kBf16;
  const int64_t bytes = narrow ? sizeof(uint16_t) : sizeof(float), block_bytes = kNormBlock * bytes;
  const char* g = static_cast<const char*>(args.g) + begin * bytes;
  float wide[kNormBlock];
  alignas(float) char last[kNormBlock * sizeof(float)] = {};  // zeros add nothing
  for (int64_t left = n; left > 0; left -= kNormBlock, g += block_bytes) {
    if (left < kNormBlock) {
      __builtin_memcpy(last, g, static_cast<size_t>(left * bytes));
      g = last;
    }
    for (int64_t line = 0; line < block_bytes; line += 64) __builtin_prefetch(g + kAhead + line);
    const float* block = reinterpret_cast<const float*>(g);
    if (narrow) {
      widen(wide, reinterpret_cast<const uint16_t*>(g));
      block = wide;
    }
    exact_sum_add(sum->words, block_sum(block));
  }
  sum->words[ExactSum::kAdds] = (n + kNormBlock - 1) / kNormBlock;  // below kMaxAdds up to n = 2^37 per task
}

}  // namespace

void sum_of_squares(const SumOfSquares& args, Stream& stream) {
  const int64_t blocks = (args.n + kNormBlock - 1) / kNormBlock;
  const int64_t share = (blocks + kNormTasks - 1) / kNormTasks;
  const int64_t grain = (share > kMinBlocks ? share : kMinBlocks) * kNormBlock;
  const int64_t tasks = (args.n + grain - 1) / grain;
  parallel(stream, tasks, [&](int64_t task, int32_t) {
    const int64_t begin = task * grain, left = args.n - begin;
    task_sum(args.workspace + task, args, begin, left < grain ? left : grain);
  });
  for (int64_t task = 0; task < tasks; ++task) args.sum->merge(args.workspace[task]);
}

}  // namespace hawser::kernels::HWS_LEVEL
