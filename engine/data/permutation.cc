// Permutation: implements a Feistel network with cycle walking.
#include "engine/data/permutation.h"

#include "engine/base/philox.h"

namespace hawser::data {
namespace {

constexpr uint64_t kRounds = 8;
// With halves of 1 or 2 bits, some orders are visibly more likely than others, for any number of rounds
// (chi-square over all orders of 3 to 5 items: 100 times the expected value; with 3 bits as expected).
constexpr uint32_t kMinHalfBits = 3;

/// Returns the image of `value` under a bijection of [0, 4^half_bits).
uint64_t feistel(uint64_t value, uint32_t half_bits, uint64_t key) {
  const uint64_t mask = (uint64_t{1} << half_bits) - 1;  // half_bits <= 32
  uint64_t left = value >> half_bits, right = value & mask;
  for (uint64_t round = 0; round < kRounds; ++round) {
    const uint64_t mixed = left ^ (philox_derive(key, right, round) & mask);
    left = right;
    right = mixed;
  }
  return (left << half_bits) | right;
}

}  // namespace

uint64_t permute(uint64_t index, uint64_t count, uint64_t key) {
  if (count < 2) return index;
  uint32_t half_bits = kMinHalfBits;
  while (half_bits < 32 && (count - 1) >> (2 * half_bits) != 0) ++half_bits;
  uint64_t value = index;
  do {
    value = feistel(value, half_bits, key);
  } while (value >= count);  // terminates: the walk is a cycle that contains `index` < count
  return value;
}

}  // namespace hawser::data
