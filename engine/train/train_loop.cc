// The train loop: steps, validation when it is due, checkpoints when they are due, a record for the host
// after each step.
#include <fmt/format.h>
#include <functional>
#include <limits>

#include "engine/base/error.h"
#include "engine/train/agreement.h"
#include "engine/train/together.h"
#include "engine/train/trainer_impl.h"

namespace hawser::train {

void TrainerImpl::train(int64_t until_step, const std::function<bool(const TrainRecord&)>& fn) {
  require_training("train");
  require_pending(false);
  saver_.raise_unheard();
  const int64_t total = until_step > 0 ? until_step : config_.train.steps;
  const auto due = [&](int64_t every) { return every > 0 && state_.step % every == 0; };
  training_ = true;
  const std::unique_ptr<bool, void (*)(bool*)> leave(&training_, [](bool* training) { *training = false; });
  bool stop = stop_requested(), saved = false, ran = false;
  while (!stop && state_.step < total) {
    TrainRecord record;
    record.result = train_step();
    record.total_steps = total;
    record.communication_bytes = sent_bytes(last_traffic_);
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
    const bool save_step = last || due(config_.checkpoint.every);
    record.saved = save_step && !config_.checkpoint.path.empty();
    record.save_failures = saver_.failures().count;
    // The host hears of a step before its checkpoint is there: a record is never missing for a step that a
    // resumed run begins with.
    const bool enough = fn && !fn(record);
    saved = save_into_run({state_.step, save_step, record.best && config_.checkpoint.keep_best});
    if (on_any_process(enough)) return end_run(saved);
    stop = stop_requested();
    ran = true;
  }
  if (ran || stop) end_run(saved);
  if (!stop) return;
  fail(Code::kCancelled, "training was cancelled after step {}", state_.step);
}

/// The host's wish to end, as all processes know it: here at once, with others by way of the last step's
/// reduction.
bool TrainerImpl::stop_requested() {
  if (all_here()) return take_cancel();
  if (!agreed_cancel_) return false;
  agreed_cancel_ = false;
  cancel_->store(false);
  return true;
}

/// Whether any process says so; the same answer on all.
bool TrainerImpl::on_any_process(bool here) const {
  if (all_here()) return here;
  bool result = here;
  on_ranks([&](Rank& rank, int32_t i) {
    const bool any = on_any_rank(rank.groups().dp.get(), here);
    if (i == 0) result = any;
  });
  return result;
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

/// What `make` returns on each process, by rank; where one fails, its error on all.
std::vector<std::string> TrainerImpl::from_all_processes(const std::function<std::string()>& make) const {
  if (all_here()) return {make()};
  std::vector<std::string> answers;
  on_ranks([&](Rank& rank, int32_t i) {
    std::vector<std::string> all = Together(rank.groups().dp.get()).from_all(make);
    if (i == 0) answers = std::move(all);
  });
  return answers;
}

/// Runs `fn` on the process of rank 0 alone; its answer, or its error, on all.
bool TrainerImpl::on_first_process(const std::function<bool()>& fn) const {
  if (all_here()) return fn();  // what it did must not be lost for want of memory for an answer
  const auto answer = [&] { return std::string(first().number() == 0 && fn() ? "1" : "0"); };
  return from_all_processes(answer).front() == "1";
}

}  // namespace hawser::train
