// GPipe (Huang et al., arXiv:1811.06965, section 2.3): all micro-batches forward, then all backward. Every
// stage keeps the saved activations of all micro-batches. With F and B for one forward and one backward, m
// micro-batches on p stages take (m + p - 1)(F + B).
#include "engine/parallel/pipeline/schedule.h"

namespace hawser::parallel::pipeline {

std::vector<plan::Action> gpipe(const Shape& shape, int64_t) {
  std::vector<plan::Action> actions;
  for (const plan::Part part : {plan::Part::kForward, plan::Part::kBackward})
    for (int32_t mb = 0; mb < shape.micro_batches; ++mb) actions.push_back({part, 0, mb});
  return actions;
}

}  // namespace hawser::parallel::pipeline
