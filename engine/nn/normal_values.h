// Normal values: generates normal random numbers by the Box-Muller formula, many at a time.
#pragma once

#include <cstdint>

namespace hawser::nn {

constexpr int64_t kNormalBlocks = 64;  ///< Philox blocks in one call: 4 values each

/// Fills out[4 * kNormalBlocks] with normal values of standard deviation `std` from blocks [block, block +
/// kNormalBlocks) of Philox under `key`. The result is bit-identical on every CPU and with every C library:
/// logarithm, sine and cosine are our own polynomials (absolute error below 1e-6 std), which the compiler
/// vectorises.
void normal_values(float* out, uint64_t key, uint64_t block, float std);

}  // namespace hawser::nn
