// DualPipeV (DeepSeek-AI, github.com/deepseek-ai/DualPipe; DeepSeek-V3, arXiv:2412.19437, section 3.2.1): the
// V schedule of ZBV, but in the steady state a forward of one chunk is interleaved block by block with an
// input pass of the other. One computes while the other waits for the ranks that share its experts. With
// passes of equal cost it takes 6m + p - 1, with 2p + 1 chunks in flight. Requires 2p micro-batches.
#include <deque>

#include "engine/parallel/pipeline/action_list.h"
#include "engine/parallel/pipeline/schedule.h"

namespace hawser::parallel::pipeline {

std::vector<plan::Action> dual_pipe_v(const Shape& shape, int64_t stage) {
  const int64_t m = shape.micro_batches, behind = shape.stages - 1 - stage, before = stage + 1;
  ActionList t(m);
  const auto pair = [&](int32_t forward, int32_t input) { t.pair(forward, input), t.weight(input); };
  // Phases 1 and 2 last until the first micro-batch has come back up.
  for (int64_t k = 0; k < 2 * behind; ++k) t.forward(0);
  for (int64_t k = 0; k < before; ++k) t.forward(0), t.forward(1);
  // Phase 3 lasts until the first micro-batch's gradient has come back down.
  for (int64_t k = 0; k < behind; ++k) t.input(1), t.weight(1), t.forward(1);
  // Phase 4 is the steady state.
  for (int64_t k = 0; k < m - 2 * shape.stages + before; ++k) pair(0, 1), pair(1, 0);
  // Phase 5: no forward of the first chunk is left.
  for (int64_t k = 0; k < behind; ++k) t.input(1), t.weight(1), pair(1, 0);
  // Phase 6: input passes only. From the middle on, weight passes are postponed to fill later waits.
  std::deque<int32_t> put_off;  // chunks whose weight pass is postponed
  const auto input = [&](int32_t chunk, bool waits) {
    t.input(chunk);
    waits ? put_off.push_back(chunk) : t.weight(chunk);
  };
  for (int64_t k = 0; k < 2 * before; ++k) input(k % 2 == 0 ? 1 : 0, k >= before);
  // Phases 7 and 8 run the postponed weight passes.
  const auto put_off_weight = [&] { t.weight(put_off.front()), put_off.pop_front(); };
  for (int64_t k = 0; k < behind; ++k) {
    put_off_weight();
    t.input(0), put_off.push_back(0);
  }
  while (!put_off.empty()) put_off_weight();
  return t.take();
}

}  // namespace hawser::parallel::pipeline
