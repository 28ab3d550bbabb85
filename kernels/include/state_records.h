// Records of optimizer state (kS8Block, kU8Block): 64 numbers as codes of 8 bits with one largest
// magnitude, block-wise as in Dettmers et al., "8-bit Optimizers via Block-wise Quantization"
// (arXiv:2110.02861). Their codes are the places of a table that is dense near 0 and covers seven decimal
// orders. These codes are powers, which serve the same purpose and need no table. In f32, each operation
// rounded once:
//
//   kS8Block, a first moment, most = 127:
//     code = sign(x) * round(sqrt(|x|) * (most / sqrt(absmax)))     y = code * |code| / most^2 * absmax
//   kU8Block, a second moment, most = 255:
//     code = round(sqrt(sqrt(x)) * (most / sqrt(sqrt(absmax))))     y = (code^2 / most^2)^2 * absmax
//
// with ties to even; divisions by most^2 are products with its reciprocal. AdamW divides the first moment
// by the root of the second. That root is, like the first moment, proportional to the square of a code, so
// both have their finest steps at small numbers, and one step at most is 2/127 of absmax, or of its root. A
// second moment above 0 has at least code 1: with 0 in its place, AdamW would divide by eps, and the update
// would be up to 1 / eps times too large. Code 1 makes the update of such an element smaller instead. It
// stands for 2^-32 of absmax, and for 2^-16 of its root.
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
