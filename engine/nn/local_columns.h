// LocalColumns: the columns of each row of a micro-batch that one rank has under context parallelism. A row
// is divided into 2c chunks for c ranks, and rank i has chunks i and 2c-1-i, so that all ranks compute
// equally much under a causal mask. Rows are padded to full chunks.
#pragma once

#include <cstdint>

namespace hawser::nn {

struct LocalColumns {
  int64_t ranks = 1, rank = 0;

  /// Returns how many of `columns` each rank has, with padding: two chunks.
  int64_t count(int64_t columns) const {
    return ranks == 1 ? columns : (columns + 2 * ranks - 1) / (2 * ranks) * 2;
  }
  /// Returns the column at which a chunk of a rank's `count` columns begins; `half` is 0 for its first chunk,
  /// 1 for its second.
  int64_t begin(int64_t of_rank, int64_t half, int64_t count) const {
    return (half == 0 ? of_rank : 2 * ranks - 1 - of_rank) * (count / 2);
  }
  /// Returns the column in the row of local column t of `count`.
  int64_t column(int64_t t, int64_t count) const {
    if (ranks == 1) return t;
    const int64_t chunk = count / 2;
    return t < chunk ? begin(rank, 0, count) + t : begin(rank, 1, count) + t - chunk;
  }
};

}  // namespace hawser::nn
