// TeacherPairs: the likeliest tokens of a teacher with their log-probabilities, for the targets of training
// rows.
#pragma once

#include <cstdint>
#include <vector>

namespace hawser::data {

struct TeacherPairs {
  int64_t top = 0;              ///< pairs of each target; 0: there is no teacher
  std::vector<int64_t> begins;  ///< unmasked targets before each stored training row; at the end, of all
  std::vector<int32_t> ids;     ///< [targets, top]; targets that are masked have none
  std::vector<float> logprobs;  ///< [targets, top]

  /// Writes the pairs of a row to the positions of its targets, [cols, top].
  void read(int64_t row, const int32_t* targets, int64_t cols, int32_t* to_ids, float* to_logprobs) const;
};

}  // namespace hawser::data
