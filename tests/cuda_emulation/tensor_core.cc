// Emulates the instructions of tensor cores by their definition (PTX ISA 8.0, "ldmatrix" and "Matrix
// fragments for mma.m16n8k16 with floating point type").
#include "tests/cuda_emulation/block.h"
#include "tests/cuda_emulation/include/tensor_core_instructions.h"

namespace hawser::cuda_emulation::tensor_core {
namespace {

float half_of(uint32_t word, unsigned half) {
  return __builtin_bit_cast(float, half == 0 ? word << 16 : word & 0xffff0000u);
}

}  // namespace

void exchange_rows(uint32_t (&words)[4], bool transposed) {
  const auto* const rows = warp_gather(words, 4);  // matrix i has rows 8 i to 8 i + 7
  const unsigned upper = lane() / 4, lower = lane() % 4;
  const auto element = [&](unsigned row, unsigned column) {
    return rows[row][column / 2] >> column % 2 * 16 & 0xffffu;
  };
  for (unsigned i = 0; i < 4; ++i) {
    words[i] = transposed ? element(i * 8 + 2 * lower, upper) | element(i * 8 + 2 * lower + 1, upper) << 16
                          : rows[i * 8 + upper][lower];
  }
}

void multiply_add(float (&sums)[4], const uint32_t (&left)[4], uint32_t right0, uint32_t right1) {
  const uint32_t own[kGatheredWords] = {left[0], left[1], left[2], left[3], right0, right1};
  const auto* const words = warp_gather(own, kGatheredWords);
  const unsigned row = lane() / 4, column = lane() % 4 * 2;
  for (unsigned depth = 0; depth < 16; ++depth) {
    const unsigned owner = depth % 8 / 2, upper = depth / 8, half = depth % 2;
    const uint32_t* const rows = words[row * 4 + owner] + 2 * upper;
    const float b[2] = {half_of(words[column * 4 + owner][4 + upper], half),
                        half_of(words[(column + 1) * 4 + owner][4 + upper], half)};
    for (unsigned i = 0; i < 4; ++i) sums[i] += half_of(rows[i / 2], half) * b[i % 2];
  }
}

void report_unaligned_row() { report("a row of ldmatrix at an address that is no multiple of 16 bytes"); }

}  // namespace hawser::cuda_emulation::tensor_core
