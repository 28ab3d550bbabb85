#include "engine/execute/local_columns.h"

#include <algorithm>

namespace hawser::train {

void take_own_columns(const MicroBatch& rows, const nn::LocalColumns& own, MicroBatch* to) {
  for (int64_t row = 0; row < rows.batch; ++row) {
    for (int64_t t = 0; t < to->seq; ++t) {
      const int64_t column = own.column(t, to->seq), i = row * to->seq + t, from = row * rows.seq + column;
      const bool padding = column >= rows.seq;
      to->tokens[i] = padding ? 0 : rows.tokens[from];
      to->targets[i] = padding ? -100 : rows.targets[from];
      to->positions[i] = padding ? 0 : rows.positions[from];
      to->kv_begin[i] = padding ? static_cast<int32_t>(column) : rows.kv_begin[from];
      if (to->weights) to->weights[i] = padding ? 0.0f : rows.weights[from];
      for (int64_t d = 0; d < to->ahead.depths; ++d) {
        const int64_t at = d * to->batch * to->seq + i, whole = d * rows.batch * rows.seq + from;
        to->ahead.tokens[at] = padding ? -1 : rows.ahead.tokens[whole];
        to->ahead.targets[at] = padding ? -100 : rows.ahead.targets[whole];
        to->ahead.weights[at] = padding ? 0.0f : rows.ahead.weights[whole];
      }
      if (const int64_t top = to->teacher.top; top > 0 && !padding) {
        std::copy_n(rows.teacher.ids + from * top, top, to->teacher.ids + i * top);
        std::copy_n(rows.teacher.logprobs + from * top, top, to->teacher.logprobs + i * top);
      }
    }
    const int64_t padded = own.ranks * to->seq;
    for (int64_t column = 0; column < padded; ++column)
      to->row_begins[row * padded + column] =
          column < rows.seq ? rows.kv_begin[row * rows.seq + column] : static_cast<int32_t>(column);
  }
  std::copy_n(rows.samples, rows.batch, to->samples);
}

}  // namespace hawser::train
