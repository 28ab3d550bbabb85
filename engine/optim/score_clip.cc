#include "engine/optim/score_clip.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/optim/optimizer.h"

namespace hawser::optim {

ScoreSummary summary_of(const std::vector<float>& largest, double limit) {
  ScoreSummary summary;
  for (const float score : largest) {
    summary.largest = std::max(summary.largest, score);
    if (score > static_cast<float>(limit)) ++summary.heads_above;
  }
  return summary;
}

ScoreClip::ScoreClip(const nn::ParameterTable& table, double limit,
                     const std::function<mesh::Box(const nn::Parameter&)>& share)
    : limit_(static_cast<float>(limit)), rows_(table.groups().size()) {
  for (const nn::Parameter& p : table.all())
    if (!p.scaled_rows.empty()) add(p, share(p), (p.block - 1) * table.scored_heads());
}

/// Tensor-parallel ranks divide scaled parameters by heads, so the rows of a share are consecutive and begin
/// with the first row of a head.
void ScoreClip::add(const nn::Parameter& p, const mesh::Box& share, int64_t first_head) {
  const int64_t columns = p.shape.size() > 1 ? p.shape[1] : 1;
  const int64_t of_head =
      std::accumulate(p.scaled_rows.begin(), p.scaled_rows.end(), int64_t{0},
                      [](int64_t sum, const nn::ScaledRows& part) { return sum + part.rows; });
  int64_t at = p.offset;
  for (int64_t row = share.begin[0]; row < share.end[0]; row += of_head)
    for (const nn::ScaledRows& part : p.scaled_rows) {
      const int64_t end = at + part.rows * columns;
      if (part.power > 0 && part.rows > 0)
        rows_[static_cast<size_t>(p.group)].push_back({at, end, first_head + row / of_head, part.power});
      at = end;
    }
}

void ScoreClip::apply(int32_t group, const OptimizerRun& run, const float* largest,
                      const kernels::KernelTable& kernels, Stream& stream) const {
  if (rows_.empty() || largest == nullptr) return;
  for (const Rows& rows : rows_[static_cast<size_t>(group)]) {
    const int64_t begin = std::max(rows.begin, run.begin), n = std::min(rows.end, run.end) - begin;
    if (n <= 0 || !(largest[rows.head] > limit_)) continue;
    const float factor = limit_ / largest[rows.head];
    float* const weights = static_cast<float*>(run.weights) + (begin - run.begin);
    kernels::Convert scaled{weights, weights, DType::kF32, DType::kF32, n};
    scaled.scale = rows.power == 1 ? factor : std::sqrt(factor);
    kernels.convert(scaled, stream);
    if (run.copy == nullptr) continue;
    char* const copy = static_cast<char*>(run.copy) + dtype_bytes(run.copy_type, begin - run.begin);
    kernels.convert({copy, weights, run.copy_type, DType::kF32, n}, stream);
  }
}

}  // namespace hawser::optim
