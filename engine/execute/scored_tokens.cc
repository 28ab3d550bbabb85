#include "engine/execute/scored_tokens.h"

#include <algorithm>

namespace hawser::train {

void mark_scored_tokens(const MicroBatch& rows) {
  for (int64_t row = 0; row < rows.batch; ++row) {
    int32_t* const targets = rows.targets + row * rows.seq;
    int64_t last = rows.seq - 1;
    while (last >= 0 && targets[last] == -100) --last;
    std::fill_n(targets, rows.seq, -100);
    if (last >= 0 && last + 1 < rows.seq) targets[last + 1] = rows.tokens[row * rows.seq + last + 1];
  }
}

}  // namespace hawser::train
