// Sums go through staging in chunks: the elements of a member's part in one chunk.
#pragma once

#include <algorithm>
#include <cstdint>

namespace hawser::comm {

struct Part {
  int64_t begin = 0, count = 0;
};

/// The elements of [begin, end) in the chunk that starts at `at`.
inline Part chunk_of(int64_t begin, int64_t end, int64_t at, int64_t chunk) {
  return {begin + at, std::clamp<int64_t>(end - begin - at, 0, chunk)};
}

}  // namespace hawser::comm
