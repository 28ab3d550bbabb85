// PlainStream: a loop that only reads and writes memory, the limit of a kernel that waits for memory.
#pragma once

#include <cstdint>

namespace hawser::bench {

/// Numbers of arrays that a loop reads, writes, and updates in place.
struct StreamShape {
  int reads = 0, writes = 0, updates = 0;

  constexpr int arrays() const { return reads + writes + updates; }
  /// Reading and writing count once each, so an array that is updated counts twice.
  constexpr int accesses() const { return arrays() + updates; }
};

constexpr int kStreamArrays = 6;  ///< the most arrays of a loop

/// Runs the loop over n floats (a multiple of 64) of each array: first those that are read, then written,
/// then updated. Every level of the processor runs the same code.
void run_plain_stream(const StreamShape& shape, float* const* arrays, int64_t n);

}  // namespace hawser::bench
