// DualPipeV (DeepSeek-AI, github.com/deepseek-ai/DualPipe; DeepSeek-V3, arXiv:2412.19437, section 3.2.1): the
// V of ZBV, but in the steady state a forward of one chunk and an input half of the other are one piece of
// work, laid block by block. One can compute while the other waits for ranks that share its experts. 6m + p -
// 1 with halves of equal cost, and 2p + 1 chunks in flight. Needs 2p micro-batches.
#include <deque>

#include "engine/parallel/pipeline/schedule.h"
#include "engine/parallel/pipeline/taken.h"

namespace hawser::parallel::pipeline {

std::vector<plan::Action> dual_pipe_v(const Shape& shape, int64_t stage) {
  const int64_t m = shape.micro_batches, behind = shape.stages - 1 - stage, before = stage + 1;
  Taken t(m);
  const auto pair = [&](int32_t forward, int32_t input) { t.pair(forward, input), t.weight(input); };
  // 1, 2: until the first micro-batch has come back up.
  for (int64_t k = 0; k < 2 * behind; ++k) t.forward(0);
  for (int64_t k = 0; k < before; ++k) t.forward(0), t.forward(1);
  // 3: until its gradient has, too.
  for (int64_t k = 0; k < behind; ++k) t.input(1), t.weight(1), t.forward(1);
  // 4: the steady state.
  for (int64_t k = 0; k < m - 2 * shape.stages + before; ++k) pair(0, 1), pair(1, 0);
  // 5: no forward of the first chunk is left.
  for (int64_t k = 0; k < behind; ++k) t.input(1), t.weight(1), pair(1, 0);
  // 6: input halves alone. From the middle on weight halves are put off, to fill what would be a wait.
  std::deque<int32_t> put_off;  // by chunk
  const auto input = [&](int32_t chunk, bool waits) {
    t.input(chunk);
    waits ? put_off.push_back(chunk) : t.weight(chunk);
  };
  for (int64_t k = 0; k < 2 * before; ++k) input(k % 2 == 0 ? 1 : 0, k >= before);
  // 7, 8.
  const auto put_off_weight = [&] { t.weight(put_off.front()), put_off.pop_front(); };
  for (int64_t k = 0; k < behind; ++k) {
    put_off_weight();
    t.input(0), put_off.push_back(0);
  }
  while (!put_off.empty()) put_off_weight();
  return t.take();
}

}  // namespace hawser::parallel::pipeline
