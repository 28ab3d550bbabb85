// Packing: documents of different lengths share rows, so that little of a row is left empty.
#pragma once

#include <cstdint>
#include <vector>

namespace hawser::data {

/// Which documents each row holds, in order.
struct PackedRows {
  std::vector<int64_t> documents;  ///< indexes, those of one row beside each other
  std::vector<int64_t> begins;     ///< where each row begins in `documents`; one more at the end
  int64_t rows() const { return static_cast<int64_t>(begins.size()) - 1; }
};

/// Best fit decreasing: the longest document first, each into the row that it fills best. At most 11/9 of the
/// fewest possible rows and 6/9 of one (Johnson 1973; Dosa 2007). Equal lengths give equal rows. Lengths are
/// 1 to cols.
PackedRows best_fit_decreasing(const std::vector<int32_t>& lengths, int64_t cols);

/// Each document in a row of its own, in order.
PackedRows one_in_each_row(int64_t documents);

}  // namespace hawser::data
