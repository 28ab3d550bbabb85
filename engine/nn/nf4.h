// NF4: weights in 4 bits (Dettmers et al., arXiv:2305.14314), in the format of bitsandbytes. A tensor is
// divided in row-major order into blocks of 64 numbers. A number is the nearest of 16 values, the quantiles
// of a normal distribution, times the largest magnitude of its block (absmax). The absmax are quantised too:
// minus their mean, in blocks of 256, to 8 bits. This takes 4 + 8 / 64 + 32 / (64 x 256) = 4.127 bits for
// each number.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/base/dtype.h"
#include "kernels/include/nf4.h"

namespace hawser::nn {

inline constexpr int64_t kNf4Nested = 256;  ///< blocks whose absmax are quantised together

struct Nf4Tensor {
  int64_t size = 0;                 ///< number of elements
  std::vector<uint8_t> codes;       ///< two in each byte, the first in the high 4 bits
  std::vector<uint8_t> absmax;      ///< quantised absmax of each block; empty if they are in `plain_absmax`
  std::vector<float> plain_absmax;  ///< f32 absmax of each block
  std::vector<float> nested_absmax;
  float offset = 0;          ///< mean of the absmax
  DType type = DType::kF32;  ///< type of the original numbers: f32, bf16 or f16
  std::array<float, 16> values{};
  std::array<float, 256> nested_values{};

  int64_t blocks() const { return (size + kNf4Block - 1) / kNf4Block; }
};

/// Quantises numbers to the bytes that bitsandbytes would write with the same offset. The default offset is
/// the mean in f64, rounded to f32; PyTorch's f32 sum may differ from it in the last place. A number half-way
/// between two values takes the lower one.
Nf4Tensor nf4_quantise(const float* numbers, int64_t size, std::optional<float> offset = {});
/// Decodes the tensor: computes its numbers in f32, rounds them to its type and widens them again.
void nf4_decode(const Nf4Tensor& tensor, float* numbers);

// In an engine's memory a tensor is an array of records (DType::kNf4) and its scales (kernels::Nf4Scales).
// Its absmax are quantised (`nested`) or f32, as in its folder. An f32 absmax is stored as the nested absmax
// of a block of its own, with a code that stands for 1.

/// Returns the number of f32 values in the scales of a tensor.
inline constexpr int64_t nf4_scales(int64_t size, bool nested) {
  const int64_t numbers = nested ? kNf4Block * kNf4Nested : kNf4Block;
  return kernels::Nf4Scales::kNested + (size + numbers - 1) / numbers;
}
/// Selects the records of a tensor that a rank has, in the order of its memory (kernels::Nf4Scales).
struct Nf4Share {
  int64_t first = 0, run = 1, stride = 1;
};
std::vector<uint8_t> nf4_records(const Nf4Tensor& tensor, bool nested);
std::vector<float> nf4_scales(const Nf4Tensor& tensor, bool nested, const Nf4Share& share = {});
/// Decodes numbers [first, first + n) of the tensor; `records` begins with the record of `first`, a multiple
/// of kNf4Block.
void nf4_decode(const uint8_t* records, const float* scales, int64_t first, int64_t n, float* numbers);

}  // namespace hawser::nn
