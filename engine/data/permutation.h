// A random order of n things as a pure function of (n, key, place), without table or state. The shuffle of
// an epoch costs nothing to set up, and a resumed run finds its place at once.
#pragma once

#include <cstdint>

namespace hawser::data {

/// The thing at place `index` of the order that `key` gives to 0..count-1. A bijection of [0, count) for
/// every key. Needs index < count. Allocates nothing.
///
/// A Feistel network (Luby and Rackoff, "How to construct pseudorandom permutations", 1988) over the smallest
/// even number of bits that holds `count`, with Philox as its round function; values outside [0, count) are
/// sent through again until one lies inside (cycle walking: Black and Rogaway, "Ciphers with arbitrary finite
/// domains", 2002), fewer than four times on average (more below 17 things, where bits are kept
/// that a good shuffle needs).
uint64_t permute(uint64_t index, uint64_t count, uint64_t key);

}  // namespace hawser::data
