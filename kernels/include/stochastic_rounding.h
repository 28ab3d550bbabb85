// Stochastic rounding of f32 to bf16 (Gupta et al., "Deep learning with limited numerical precision",
// arXiv:1502.02551). A value is rounded up with a probability equal to the part cut off, so the mean over
// many roundings is the value itself, and updates far below half a unit in the last place are not lost.
// Values that bf16 represents exactly are unchanged. The random bits are Philox words of (parameter, step,
// element), so they do not depend on layout, division into ranges, level or number of threads.
#pragma once

#include "engine/base/philox.h"

namespace hawser::kernels {

/// A range of elements in memory: `key` belongs to the parameter (from seed and name), `first` is the number
/// of the range's first element in the unsharded parameter. The step comes from OptimizerScalars. If ranks
/// divide the columns of a matrix, `width` consecutive elements in memory are a part of one row, and the next
/// part is `stride` numbers further; the range may begin `column` elements into its first row.
struct RoundingRun {
  uint64_t key = 0;
  int64_t first = 0;
  int64_t width = 0;  ///< 0: the numbers are consecutive
  int64_t stride = 0;
  int64_t column = 0;  ///< less than width
};

/// Returns the number of the range's element i in the unsharded parameter.
static constexpr inline int64_t rounded_element(const RoundingRun& run, int64_t i) {
  if (run.width == 0) return run.first + i;
  const int64_t rows = (run.column + i) / run.width;
  return run.first + i + rows * (run.stride - run.width);
}

/// Returns how many elements from the range's element i on have consecutive numbers, but at most `most`.
static constexpr inline int64_t rounded_together(const RoundingRun& run, int64_t i, int64_t most) {
  if (run.width == 0) return most;
  const int64_t left = run.width - (run.column + i) % run.width;
  return left < most ? left : most;
}

/// Returns the words of elements 4 * block .. 4 * block + 3.
static constexpr inline PhiloxBlock rounding_words(uint64_t key, uint64_t step, uint64_t block) {
  return philox(key, step, block);
}

/// Sixteen uniform bits for each of an element's three values, derived from its one word. Any two of them are
/// independent.
enum class RoundingUse : uint8_t { kWeight, kMoment1, kMoment2 };
static constexpr inline uint32_t rounding_bits(uint32_t word, RoundingUse use) {
  if (use == RoundingUse::kWeight) return word & 0xffffu;
  return use == RoundingUse::kMoment1 ? word >> 16 : (word ^ (word >> 16)) & 0xffffu;
}

/// Rounds the bits of an f32 to bf16. NaN stays NaN (quiet), infinity stays infinity.
static constexpr inline uint16_t round_stochastically(uint32_t f32, uint32_t random_bits) {
  if ((f32 & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>(f32 >> 16 | 0x40u);
  return static_cast<uint16_t>((f32 + random_bits) >> 16);
}

}  // namespace hawser::kernels
