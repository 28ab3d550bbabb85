#include "engine/execute/ahead_rows.h"

namespace hawser::train {

/// Ranks that divide columns all load whole rows, so no column ahead is on another rank.
void look_ahead(const MicroBatch& rows) {
  const AheadRows& to = rows.ahead;
  for (int64_t d = 0; d < to.depths; ++d)
    for (int64_t i = 0; i < rows.batch * rows.seq; ++i) {
      const int64_t at = d * rows.batch * rows.seq + i, next = i + d + 1;
      const bool same =
          i % rows.seq + d + 1 < rows.seq && rows.kv_begin[next] == rows.kv_begin[i];  // document
      to.tokens[at] = same ? rows.tokens[next] : -1;
      to.targets[at] = same ? rows.targets[next] : -100;
      to.weights[at] = same && rows.weights != nullptr ? rows.weights[next] : 0.0f;
    }
}

int64_t count_ahead(const BatchView& batch, int64_t first_row, int64_t rows, int64_t depth) {
  int64_t count = 0;
  for (int64_t row = first_row; row < first_row + rows; ++row)
    for (int64_t t = depth; t < batch.cols; ++t) {
      const int64_t at = row * batch.cols + t;
      const bool same =
          batch.document_begin == nullptr || batch.document_begin[at] == batch.document_begin[at - depth];
      count += same && batch.targets[at] != -100 ? 1 : 0;
    }
  return count;
}

}  // namespace hawser::train
