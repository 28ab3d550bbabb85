#include "engine/run/rewind.h"

#include "engine/base/error.h"

namespace hawser::train {

std::shared_ptr<const checkpoint::Reader> Rewind::target() const {
  if (config_.guard.outlier != config::OutlierPolicy::kRewind) return nullptr;
  return loads_.newest(config_.checkpoint.path, progress_.state.step);
}

void Rewind::go_to(const checkpoint::Reader& target) {
  const int64_t behind = progress_.state.samples + progress_.result.rows;
  loads_.take_over(target);
  progress_.state.samples = behind;
  const int64_t step = progress_.state.step;
  times_ = step == step_ ? times_ + 1 : 1;
  step_ = step;
  if (times_ <= config_.guard.max_rewinds) return;
  fail(Code::kNumeric,
       "training stopped at step {}: its loss {} or gradient norm {} was an outlier, and the run has gone "
       "back to "
       "the checkpoint of step {} {} times; lower /optimizer/learning_rate, check the data, or raise "
       "/guard/max_rewinds",
       progress_.result.step, progress_.result.loss, progress_.result.grad_norm, step, times_ - 1);
}

}  // namespace hawser::train
