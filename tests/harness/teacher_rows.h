// TeacherRows: random rows of a teacher for pushed batches, which depend only on the position in the data.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/base/philox.h"
#include "engine/config/resolved_config.h"
#include "engine/execute/step_result.h"

namespace hawser::testing {

class TeacherRows {
 public:
  /// The rows from `first` on; none if the config has no teacher.
  TeacherRows(const config::ResolvedConfig& c, int64_t first, int64_t rows) : top_(c.teacher.top) {
    const auto words = static_cast<uint32_t>(c.model.vocab_size);
    const int64_t positions = top_ > 0 ? rows * c.batch.sequence : 0;
    for (int64_t i = 0; i < positions; ++i) {
      const auto at = static_cast<uint64_t>(first * c.batch.sequence + i);
      for (uint32_t j = 0; j < static_cast<uint32_t>(top_); ++j) {
        ids_.push_back(static_cast<int32_t>((philox(c.seed, at, 0).v[1] % words + j) % words));
        logprobs_.push_back(-static_cast<float>(philox(c.seed, at, j).v[2] % 512) / 64.0f);
      }
    }
  }
  void add_to(train::BatchView* batch) const {
    if (top_ == 0) return;
    batch->teacher_top = top_, batch->teacher_ids = ids_.data(), batch->teacher_logprobs = logprobs_.data();
  }

 private:
  const int64_t top_;
  std::vector<int32_t> ids_;
  std::vector<float> logprobs_;
};

}  // namespace hawser::testing
