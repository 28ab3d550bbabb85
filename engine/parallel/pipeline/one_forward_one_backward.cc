// 1F1B (Narayanan et al., arXiv:2104.04473, section 2.2.1; PipeDream-Flush): a stage begins with as many
// forwards as there are later stages, and then alternates between a forward and a backward. It takes as long
// as GPipe, (m + p - 1)(F + B), but stage i of p keeps at most p - i micro-batches.
#include <algorithm>

#include "engine/parallel/pipeline/schedule.h"

namespace hawser::parallel::pipeline {

std::vector<plan::Action> one_forward_one_backward(const Shape& shape, int64_t stage) {
  const int64_t ahead = std::min(shape.micro_batches, shape.stages - 1 - stage);
  std::vector<plan::Action> actions;
  int32_t forward = 0, backward = 0;
  while (forward < ahead) actions.push_back({plan::Part::kForward, 0, forward++});
  while (backward < shape.micro_batches) {
    if (forward < shape.micro_batches) actions.push_back({plan::Part::kForward, 0, forward++});
    actions.push_back({plan::Part::kBackward, 0, backward++});
  }
  return actions;
}

}  // namespace hawser::parallel::pipeline
