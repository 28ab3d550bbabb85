// The train loop: steps, validation when it is due, checkpoints when they are due, a record for the host
// after each step.
#include <unistd.h>

#include <fmt/format.h>
#include <filesystem>
#include <limits>

#include "engine/base/error.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/train/trainer_impl.h"

namespace hawser::train {
namespace fs = std::filesystem;

void TrainerImpl::train(int64_t until_step, const std::function<bool(const TrainRecord&)>& fn) {
  require_training("train");
  require_pending(false);
  const int64_t total = until_step > 0 ? until_step : config_.train.steps;
  const auto due = [&](int64_t every) { return every > 0 && state_.step % every == 0; };
  int64_t saved_at = -1;
  training_ = true;
  const std::unique_ptr<bool, void (*)(bool*)> leave(&training_, [](bool* training) { *training = false; });
  while (state_.step < total) {
    stop_if_cancelled(saved_at == state_.step);
    TrainRecord record;
    record.result = train_step();
    record.total_steps = total;
    record.validation_loss = std::numeric_limits<double>::quiet_NaN();
    record.tokens_per_second =
        static_cast<double>(config_.batch.global_batch * config_.batch.sequence) / record.result.seconds;
    const bool last = state_.step == total;
    if (dataset_ && dataset_->validation_samples() > 0 &&
        (due(config_.train.eval_every) || (last && config_.train.eval_every > 0))) {
      record.validation_loss = validation_loss();
      record.best = record.validation_loss < state_.best_validation_loss;
      if (record.best) state_.best_validation_loss = record.validation_loss;
    }
    if (!config_.checkpoint.path.empty()) {
      const bool step_checkpoint = last || due(config_.checkpoint.every);
      save_into_run(&record, step_checkpoint, record.best && config_.checkpoint.keep_best);
      if (step_checkpoint) saved_at = state_.step;
    }
    if (fn && !fn(record)) {
      if (!config_.checkpoint.path.empty() && saved_at != state_.step) save_into_run(nullptr, true, false);
      return;
    }
  }
  stop_if_cancelled(saved_at == state_.step);
}

/// Ends the run if it was cancelled, with a checkpoint of the last step.
void TrainerImpl::stop_if_cancelled(bool saved) {
  if (!take_cancel()) return;
  if (!config_.checkpoint.path.empty() && !saved) save_into_run(nullptr, true, false);
  fail(Code::kCancelled, "training was cancelled after step {}", state_.step);
}

/// Mean loss of the validation data; NaN if it was cancelled, which ends the run after the step's record.
double TrainerImpl::validation_loss() {
  try {
    return eval(nullptr, 0).loss;
  } catch (const Error& error) {
    if (error.code() != Code::kCancelled) throw;
    return std::numeric_limits<double>::quiet_NaN();
  }
}

/// step-N and best below checkpoint.path. `best` is written beside and swapped in, so there always is one.
void TrainerImpl::save_into_run(TrainRecord* record, bool step_checkpoint, bool best) {
  const fs::path folder = config_.checkpoint.path;
  if (step_checkpoint) {
    const fs::path path = folder / fmt::format("step-{}", state_.step);
    if (!fs::exists(path)) save(path);
    checkpoint::retain(folder, config_.checkpoint.keep_last);
    if (record) record->saved = true;
  }
  if (best) {
    const fs::path path = folder / "best", next = folder / "best.next", old = folder / "best.old";
    fs::remove_all(next);
    fs::remove_all(old);
    save(next);
    if (fs::exists(path)) fs::rename(path, old);
    fs::rename(next, path);
    fs::remove_all(old);
  }
}

}  // namespace hawser::train
