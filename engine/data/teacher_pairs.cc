#include "engine/data/teacher_pairs.h"

#include <algorithm>

namespace hawser::data {

void TeacherPairs::read(int64_t row, const int32_t* targets, int64_t cols, int32_t* to_ids,
                        float* to_logprobs) const {
  int64_t from = begins[static_cast<size_t>(row)] * top;
  for (int64_t t = 0; t < cols; ++t) {
    if (targets[t] == -100) continue;
    std::copy_n(ids.data() + from, top, to_ids + t * top);
    std::copy_n(logprobs.data() + from, top, to_logprobs + t * top);
    from += top;
  }
}

}  // namespace hawser::data
