// Row documents: walks the documents of a row from left to right.
#include "engine/data/row_documents.h"

#include <algorithm>
#include <numeric>

namespace hawser::data {

void mark_documents(const TokenSource& source, int64_t first, int64_t cols, int32_t* targets,
                    int32_t* positions, int32_t* kv_begin) {
  for (int64_t begin = 0; begin < cols;) {
    // Looks one token past the row, to see whether the last target belongs to the last column's document.
    const int64_t end = source.document_end(first + begin, first + cols + 1) - first;
    const int64_t stop = std::min(end, cols);
    if (end <= cols) targets[end - 1] = kMaskedTarget;
    if (positions != nullptr) std::iota(positions + begin, positions + stop, 0);
    if (kv_begin != nullptr) std::fill(kv_begin + begin, kv_begin + stop, static_cast<int32_t>(begin));
    begin = stop;
  }
}

void mark_whole_row(int64_t cols, int32_t* positions, int32_t* kv_begin) {
  if (positions != nullptr) std::iota(positions, positions + cols, 0);
  if (kv_begin != nullptr) std::fill(kv_begin, kv_begin + cols, 0);
}

}  // namespace hawser::data
