// Numbers of records of integers, read where they are summed or decoded.
#pragma once

#include "kernels/cuda/packed.h"
#include "kernels/include/block_records.h"

namespace hawser::kernels::cuda {

/// Records of int8 and of int4, as element types of arrays.
struct I8Block {
  static constexpr int kCodes = kIntBlock, kBytes = kI8Record;
  static constexpr float kMost = kMostI8;
  __device__ static int code(const uint8_t* record, int i) { return static_cast<int8_t>(record[i]); }
};
struct I4Block {
  static constexpr int kCodes = kIntBlock / 2, kBytes = kI4Record;
  static constexpr float kMost = kMostI4;
  __device__ static int code(const uint8_t* record, int i) {
    const int pair = static_cast<int8_t>(record[i % kCodes]);
    return i < kCodes ? static_cast<int>(static_cast<unsigned>(pair) << 28) >> 28 : pair >> 4;
  }
};

/// Loads the numbers i to i + N of an array of records. N divides a record, and i is a multiple of N.
template <class Block, int N>
__device__ __forceinline__ void load_numbers(float* x, const void* records, int64_t i) {
  const int64_t block = i / kIntBlock;
  const int first = static_cast<int>(i - block * kIntBlock);
  const auto* const record = static_cast<const uint8_t*>(records) + block * Block::kBytes;
  const unsigned absmax = record[Block::kCodes] | static_cast<unsigned>(record[Block::kCodes + 1]) << 8;
  const float factor = __builtin_bit_cast(float, absmax << 16) / Block::kMost;
#pragma unroll
  for (int k = 0; k < N; ++k) x[k] = static_cast<float>(Block::code(record, first + k)) * factor;
}

}  // namespace hawser::kernels::cuda
