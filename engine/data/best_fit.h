// Packing: places documents of different lengths together in rows, so that little of a row stays empty.
#pragma once

#include <cstdint>
#include <vector>

namespace hawser::data {

/// Lists the documents of each row, in order.
struct PackedRows {
  std::vector<int64_t> documents;  ///< indexes; those of one row are adjacent
  std::vector<int64_t> begins;     ///< start of each row in `documents`; one more at the end
  int64_t rows() const { return static_cast<int64_t>(begins.size()) - 1; }
};

/// Best fit decreasing: places the longest document first, each into the row that it fills best. Uses at most
/// 11/9 of the fewest possible rows plus 6/9 of a row (Johnson 1973; Dosa 2007). Equal lengths give equal
/// rows. Lengths are 1 to cols.
PackedRows best_fit_decreasing(const std::vector<int32_t>& lengths, int64_t cols);

/// Places each document in a row of its own, in order.
PackedRows one_in_each_row(int64_t documents);

}  // namespace hawser::data
