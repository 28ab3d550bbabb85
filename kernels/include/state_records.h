// Records of optimizer state (kS8Block, kU8Block): 64 numbers as 8-bit codes with one largest magnitude,
// block-wise as in Dettmers et al., "8-bit Optimizers via Block-wise Quantization" (arXiv:2110.02861). The
// codes of that paper index a table that is dense near 0 and covers seven decimal orders. The codes here are
// powers: they also have fine steps near 0 and need no table. The formulas, in f32 with each operation
// rounded once:
//
//   kS8Block, a first moment, most = 127:
//     code = sign(x) * round(sqrt(|x|) * (most / sqrt(absmax)))     y = code * |code| / most^2 * absmax
//   kU8Block, a second moment, most = 255:
//     code = round(sqrt(sqrt(x)) * (most / sqrt(sqrt(absmax))))     y = (code^2 / most^2)^2 * absmax
//
// with ties to even; a division by most^2 is computed as a product with its reciprocal. AdamW divides the
// first moment by the square root of the second. That root and the first moment are both proportional to the
// square of a code, so both have their finest steps at small numbers, and no step exceeds 2/127 of absmax, or
// of its root. A second moment above 0 has at least code 1: with code 0, AdamW would divide by eps, and the
// update would be up to 1 / eps times too large. With code 1, the update of such an element is too small
// instead. Code 1 decodes to 2^-32 of absmax, whose root is 2^-16 of absmax's root.
//
// Decoding and then encoding returns the same bytes: both reciprocals of most^2 times most^2 are 1 in f32,
// so the largest code decodes to absmax, and all roundings together move a root by less than 2^-20 of a
// step. absmax is the largest |x|, but 0 if all numbers are 0, and otherwise at least kLeastFirst or
// kLeastSecond, so that no y is subnormal. If a number is NaN or infinite, absmax is stored as NaN and all
// codes as 0, so that y is NaN.
//
// A record: 64 codes, signed or unsigned, then absmax as f32 (little-endian).
#pragma once

#include "engine/base/dtype.h"

namespace hawser::kernels {

/// The largest codes, and the reciprocals of their squares.
inline constexpr float kMostS8 = 127, kMostU8 = 255;
inline constexpr float kPerSquareS8 = 1 / (kMostS8 * kMostS8), kPerSquareU8 = 1 / (kMostU8 * kMostU8);
static_assert(kMostS8 * kMostS8 * kPerSquareS8 == 1 && kMostU8 * kMostU8 * kPerSquareU8 == 1);

/// The least absmax of first and of second moments that are not all 0.
inline constexpr float kLeastFirst = 0x1p-110f, kLeastSecond = 0x1p-90f;

}  // namespace hawser::kernels
