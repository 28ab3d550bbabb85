// Normal random numbers by the formula of Box and Muller, many at a time.
#pragma once

#include <cstdint>

namespace hawser::nn {

constexpr int64_t kNormalBlocks = 64;  ///< Philox blocks of one call: 4 values each

/// out[4 * kNormalBlocks]: normal values of deviation `std`, made of blocks [block, block + kNormalBlocks) of
/// Philox under `key`. The same bits on every CPU and with every C library: logarithm, sine and cosine are
/// polynomials of our own (absolute error below 1e-6 std), which the compiler turns into vector code.
void normal_values(float* out, uint64_t key, uint64_t block, float std);

}  // namespace hawser::nn
