#include "engine/config/batch_config.h"

#include <algorithm>

namespace hawser::config {

int64_t BatchConfig::rows_after(int64_t consumed) const {
  int64_t rows = global_batch;
  for (const RampSize& size : ramp)
    if (consumed >= size.from_rows) rows = size.global_batch;
  return rows;
}

std::vector<int64_t> BatchConfig::all_micro_batches() const {
  std::vector<int64_t> all{grad_accum_steps};
  for (const RampSize& size : ramp) all.push_back(micro_batches(size.global_batch));
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

int64_t steps_of_rows(const std::vector<RampSize>& ramp, int64_t rows) {
  int64_t steps = 0, consumed = 0;
  for (size_t i = 0; i < ramp.size(); ++i) {
    const int64_t end = i + 1 < ramp.size() ? std::min(rows, ramp[i + 1].from_rows) : rows;
    if (consumed >= end) continue;
    const int64_t more = (end - consumed - 1) / ramp[i].global_batch + 1;
    steps += more, consumed += more * ramp[i].global_batch;
  }
  return steps;
}

}  // namespace hawser::config
