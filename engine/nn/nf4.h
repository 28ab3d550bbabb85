// NF4: weights in 4 bits (Dettmers et al., arXiv:2305.14314), as bitsandbytes stores them. A tensor is cut in
// row-major order into blocks of 64 numbers. A number is the nearest of 16 values, the quantiles of a normal
// distribution, times the largest magnitude of its block (absmax). The absmax are quantised in turn: less
// their mean, in blocks of 256, to 8 bits. 4 + 8 / 64 + 32 / (64 x 256) = 4.127 bits a number.
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
  int64_t size = 0;                 ///< numbers
  std::vector<uint8_t> codes;       ///< two a byte, the first in the high half
  std::vector<uint8_t> absmax;      ///< of each block; empty: they are `plain_absmax`, not quantised
  std::vector<float> plain_absmax;  ///< of each block
  std::vector<float> nested_absmax;
  float offset = 0;          ///< mean of the absmax
  DType type = DType::kF32;  ///< of the numbers that it stands for: f32, bf16 or f16
  std::array<float, 16> values{};
  std::array<float, 256> nested_values{};

  int64_t blocks() const { return (size + kNf4Block - 1) / kNf4Block; }
};

/// The bytes are those of bitsandbytes, given its offset; not given, it is the mean in f64, rounded, where
/// PyTorch's f32 sum may end in another last place. A number that is half-way takes the lower value.
Nf4Tensor nf4_quantise(const float* numbers, int64_t size, std::optional<float> offset = {});
/// The numbers that the tensor stands for, computed in f32, then rounded to its type and widened again.
void nf4_decode(const Nf4Tensor& tensor, float* numbers);

// In an engine's memory a tensor is an array of records (DType::kNf4) and its scales (kernels::Nf4Scales).
// Its absmax are quantised (`nested`), or f32, as the folder has them: a largest absmax of each block, and
// its code says 1.

/// f32 of the scales of a tensor.
inline constexpr int64_t nf4_scales(int64_t size, bool nested) {
  const int64_t numbers = nested ? kNf4Block * kNf4Nested : kNf4Block;
  return kernels::Nf4Scales::kNested + (size + numbers - 1) / numbers;
}
/// Which of a tensor's records a rank has, in the order of its memory (kernels::Nf4Scales).
struct Nf4Share {
  int64_t first = 0, run = 1, stride = 1;
};
std::vector<uint8_t> nf4_records(const Nf4Tensor& tensor, bool nested);
std::vector<float> nf4_scales(const Nf4Tensor& tensor, bool nested, const Nf4Share& share = {});
/// Numbers [first, first + n) of the tensor; `records` begins with that of `first`, a multiple of kNf4Block.
void nf4_decode(const uint8_t* records, const float* scales, int64_t first, int64_t n, float* numbers);

}  // namespace hawser::nn
