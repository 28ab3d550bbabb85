// ZB-H1 (Qi et al., Zero Bubble Pipeline Parallelism, arXiv:2401.10241, section 2.2): 1F1B whose backward is
// two actions. Other stages wait only for the input pass, so a stage postpones weight passes to times at
// which it would be idle, and keeps as many micro-batches as the first stage of 1F1B: p. If forwards, input
// passes and weight passes cost the same, m micro-batches (p or more) take 3m + p - 1.
#include <algorithm>

#include "engine/parallel/pipeline/schedule.h"

namespace hawser::parallel::pipeline {

std::vector<plan::Action> zero_bubble_h1(const Shape& shape, int64_t stage) {
  const auto m = static_cast<int32_t>(shape.micro_batches);
  const int64_t ahead = std::min<int64_t>(m, shape.stages - 1 - stage);
  std::vector<plan::Action> actions;
  int32_t forward = 0, input = 0, weight = 0;
  while (forward < ahead) actions.push_back({plan::Part::kForward, 0, forward++});
  while (input < m) {
    if (forward < m) actions.push_back({plan::Part::kForward, 0, forward++});
    actions.push_back({plan::Part::kBackwardInput, 0, input++});
    // A stage may postpone as many weight passes as there are earlier stages.
    if (input - weight > stage) actions.push_back({plan::Part::kBackwardWeight, 0, weight++});
  }
  while (weight < m) actions.push_back({plan::Part::kBackwardWeight, 0, weight++});
  return actions;
}

}  // namespace hawser::parallel::pipeline
