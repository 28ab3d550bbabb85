// Interleaved 1F1B (Narayanan et al., arXiv:2104.04473, section 2.2.2): each rank has v chunks of the model,
// v times smaller, so that the pipeline fills v times faster. Micro-batches are taken in groups: a chunk
// takes a complete group before the next chunk takes it. The last group may be smaller. If m is a multiple of
// the group, a step takes 3mv + 3(p - 1) times a chunk's forward.
#include <algorithm>

#include "engine/parallel/pipeline/schedule.h"

namespace hawser::parallel::pipeline {
namespace {

/// Returns the end of the group that begins with micro-batch `first`. The first group also takes the
/// remainder: the largest group determines how many forwards a stage is ahead, and a larger group later would
/// need more.
int64_t group_end(const Shape& shape, int64_t first) {
  if (shape.micro_batches < 2 * shape.group) return shape.micro_batches;
  return first == 0 ? shape.group + shape.micro_batches % shape.group : first + shape.group;
}

/// Returns all forwards, or all backwards, of a rank in order.
std::vector<plan::Action> all_of(const Shape& shape, plan::Part part) {
  std::vector<plan::Action> actions;
  const auto chunks = static_cast<int32_t>(shape.chunks);
  for (int64_t first = 0; first < shape.micro_batches; first = group_end(shape, first))
    for (int32_t c = 0; c < chunks; ++c)
      for (int64_t mb = first; mb < group_end(shape, first); ++mb)
        actions.push_back(
            {part, part == plan::Part::kForward ? c : chunks - 1 - c, static_cast<int32_t>(mb)});
  return actions;
}

}  // namespace

std::vector<plan::Action> interleaved(const Shape& shape, int64_t stage) {
  const std::vector<plan::Action> forwards = all_of(shape, plan::Part::kForward);
  const std::vector<plan::Action> backwards = all_of(shape, plan::Part::kBackward);
  // The first backward is that of the last chunk. Before it, the lower chunks take the first group, and the
  // last chunk takes two micro-batches for each later stage: one for the way there, one for the way back.
  const int64_t ahead = (shape.chunks - 1) * group_end(shape, 0) + 2 * (shape.stages - 1 - stage);
  const size_t warm_up = static_cast<size_t>(shape.micro_batches <= shape.stages
                                                 ? std::ssize(forwards)
                                                 : std::min<int64_t>(ahead, std::ssize(forwards)));
  std::vector<plan::Action> actions(forwards.begin(),
                                    forwards.begin() + static_cast<std::ptrdiff_t>(warm_up));
  size_t forward = warm_up;
  for (const plan::Action& backward : backwards) {
    if (forward < forwards.size()) actions.push_back(forwards[forward++]);
    actions.push_back(backward);
  }
  return actions;
}

}  // namespace hawser::parallel::pipeline
