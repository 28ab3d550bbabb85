// Permutation: a random permutation as a pure function of (n, key, index), without table or state. Shuffling
// an epoch needs no setup, and a resumed run continues at once.
#pragma once

#include <cstdint>

namespace hawser::data {

/// Returns the element at position `index` of the permutation of 0..count-1 for `key`, a bijection of [0,
/// count) for every key. Requires index < count. Allocates nothing.
///
/// The algorithm is a Feistel network (Luby and Rackoff, "How to construct pseudorandom permutations", 1988)
/// over the smallest even number of bits that can hold `count`, with Philox as its round function. Values
/// outside [0, count) are permuted again until one is inside (cycle walking: Black and Rogaway, "Ciphers with
/// arbitrary finite domains", 2002): fewer than four times on average, more below 17 elements, where a good
/// shuffle needs extra bits.
uint64_t permute(uint64_t index, uint64_t count, uint64_t key);

}  // namespace hawser::data
