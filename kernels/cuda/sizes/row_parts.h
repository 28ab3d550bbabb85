// Row parts: how sums over rows are divided among the blocks of a GPU. The division depends only on the
// number and length of rows, so the workspaces and the bits of the sums do too.
#pragma once

#include <cstdint>

#include "kernels/include/norm.h"

namespace hawser::kernels::cuda {

constexpr int64_t blocks_for(int64_t items, int64_t items_per_block) {
  return (items + items_per_block - 1) / items_per_block;
}

/// Length and number of ranges of rows in a column sum.
struct Runs {
  int64_t rows, parts;
};

inline Runs runs_of(int64_t rows) {
  constexpr int64_t kFewestRows = 32, kMostParts = 1024;
  const int64_t each = blocks_for(rows, kMostParts);
  const int64_t run = each > kFewestRows ? each : kFewestRows;
  return {run, blocks_for(rows, run)};
}

/// How the rows (of all groups) of a norm's backward are divided among teams.
struct Shares {
  int64_t rows_each, parts;
};

/// 256 blocks if a warp processes a row and for rows of more than 2048 elements, otherwise 512. All of them
/// run at once on GPUs with at least 128 multiprocessors, each of which can run two or four of these blocks.
/// With a few more blocks, most multiprocessors would wait for the few that run one block more.
inline Shares shares_of(const NormBackward& a) {
  constexpr int64_t kPartialElements = int64_t{1} << 20, kFewestParts = 256, kMostParts = 1024;
  const int64_t rows = a.rows * a.groups;
  int64_t parts = kMostParts;
  while (parts > kFewestParts && parts * a.d > kPartialElements) parts /= 2;
  const int64_t rows_each = rows > 0 ? blocks_for(rows, parts) : 1;
  return {rows_each, blocks_for(rows, rows_each)};
}

}  // namespace hawser::kernels::cuda
