// ZBV (Qi et al., Pipeline Parallelism with Controllable Memory, arXiv:2405.15362; arXiv:2401.10241, section
// 6): each rank has two chunks. The model goes down the stages and comes back up, so the first stage also has
// the loss, and gradients start where activations end. If input and weight passes cost the same, no stage is
// idle between its first and last action: 6m + p - 1, with 2p chunks in flight on every stage. Requires 2p
// micro-batches.
#include "engine/parallel/pipeline/action_list.h"
#include "engine/parallel/pipeline/schedule.h"

namespace hawser::parallel::pipeline {

std::vector<plan::Action> zero_bubble_v(const Shape& shape, int64_t stage) {
  const int64_t m = shape.micro_batches, behind = shape.stages - stage;
  ActionList t(m);
  // Forwards run until the first micro-batch has come back up.
  for (int64_t k = 0; k < 2 * behind - 1; ++k) t.forward(0);
  for (int64_t k = 0; k < stage; ++k) t.forward(1), t.forward(0);
  // This phase lasts until the first micro-batch's gradient has come back down.
  for (int64_t k = 0; k < behind; ++k) t.forward(1), t.input(1), t.weight(1);
  while (t.forwards(1) < m) {
    if (t.forwards(0) < m) t.forward(0);
    t.input(0), t.weight(0);
    t.forward(1), t.input(1), t.weight(1);
  }
  // Other stages wait for input passes; weight passes fill the time in which this stage would wait.
  for (int64_t k = 0; k < stage; ++k) t.input(0), t.input(1);
  for (int64_t k = 0; k < behind; ++k) t.input(0), t.weight(0);
  while (t.weights(1) < m) t.weight(1);
  while (t.weights(0) < m) t.weight(0);
  return t.take();
}

}  // namespace hawser::parallel::pipeline
