#include "engine/run/train_loop.h"

#include <exception>
#include <functional>
#include <limits>

#include "engine/base/error.h"
#include "engine/base/steady_clock.h"
#include "engine/ranks/agreement.h"
#include "engine/run/trainer.h"
#include "engine/save/save_clock.h"

namespace hawser::train {

TrainLoop::TrainLoop(Trainer* trainer, Progress* progress, Cancel* cancel)
    : trainer_(*trainer),
      ranks_(trainer->ranks()),
      dataset_(trainer->dataset()),
      progress_(*progress),
      cancel_(*cancel),
      run_saves_(trainer->ranks(), *progress, &trainer->saves()) {}

void TrainLoop::run(int64_t until_step, const std::function<bool(const TrainRecord&)>& fn) {
  const Cancel::InTrain in_train(&cancel_);
  const Monitor::InPhase in_phase(&trainer_.monitor(), Phase::kTrain);
  ranks_.require_training("train");
  progress_.require_between_steps();
  trainer_.saves().rethrow_unreported_error();
  run_saves_.hold_folder();
  const int64_t total = until_step > 0 ? until_step : config().train.steps;
  trainer_.monitor().until(total);
  // Reads the data files now, before one can become shorter.
  if (!config().checkpoint.path.empty()) trainer_.data_fingerprint().as_saved();
  run_saves_.keep(trainer_.references(), trainer_.teacher(), dataset_);
  const int64_t began = progress_.state.step;
  int64_t kept = began;  // the last step that needs no save
  bool cancelled = false;
  std::exception_ptr failure;
  try {
    cancelled = take_steps(total, fn, &kept);
  } catch (const EndOfData&) {  // the run ends as if fn had stopped it after the last step
  } catch (...) {
    failure = std::current_exception();
  }
  const bool ran = progress_.state.step > began;
  if (failure) {
    if (ran) run_saves_.end_failed(kept == progress_.state.step);
    std::rethrow_exception(failure);
  }
  if (ran || cancelled) run_saves_.end(ran && kept == progress_.state.step);
  if (cancelled) fail(Code::kCancelled, "training was cancelled after step {}", progress_.state.step);
}

/// Runs until step `total` or until a request to stop; returns true if cancelled. `*kept` receives the last
/// step whose checkpoint exists or is being written.
bool TrainLoop::take_steps(int64_t total, const std::function<bool(const TrainRecord&)>& fn, int64_t* kept) {
  const config::CheckpointConfig& c = config().checkpoint;
  SaveClock clock(c.path.empty() ? 0 : c.every_seconds, steady_seconds());
  bool stop = cancel_.take(), save_by_time = false;
  trainer_.validations().end_early(out_of_patience());
  while (!stop && !out_of_patience() && progress_.state.step < total) {
    TrainRecord record;
    record.total_steps = total;
    const std::exception_ptr failure = step_and_validate(&record);
    const bool rewound = record.result.outcome == Outcome::kRewound;
    if (rewound) *kept = progress_.state.step;
    const DueCheckpoints due = rewound ? DueCheckpoints{} : due_after_step(record, save_by_time);
    record.saved = due.step_checkpoint && !c.path.empty();
    record.save_failures = trainer_.saves().saver().failures().count;
    // The callback comes before the checkpoint, so that a resumed run never lacks a record of an earlier
    // step.
    const bool enough = fn && !fn(record);
    if (failure) std::rethrow_exception(failure);
    const double begin = steady_seconds();
    if (keep(due)) *kept = progress_.state.step;
    const double end = steady_seconds();
    if (due.any()) clock.saved(begin, end);
    const Wishes agreed = agree({enough, clock.due(end) && !trainer_.saves().saver().running()});
    if (agreed.end) return false;
    save_by_time = agreed.save;
    stop = cancel_.take();
  }
  return stop;
}

DueCheckpoints TrainLoop::due_after_step(const TrainRecord& record, bool by_time) const {
  const config::CheckpointConfig& c = config().checkpoint;
  const int64_t step = progress_.state.step;
  return {step, step == record.total_steps || by_time || (c.every > 0 && step % c.every == 0),
          record.best && c.keep_best};
}

/// Writes the checkpoints that are due, or begins to. Returns true if step-N exists or is being written.
bool TrainLoop::keep(const DueCheckpoints& due) {
  if (!due.any()) return false;
  const Monitor::InPhase in_phase(&trainer_.monitor(), Phase::kSave);
  return run_saves_.save(due);
}

/// Takes a step and fills its record. An error after the step has been taken is returned, so that the caller
/// can pass the record on before throwing it.
std::exception_ptr TrainLoop::step_and_validate(TrainRecord* record) {
  const int64_t before = progress_.state.step;
  std::exception_ptr failure;
  record->validation_loss = std::numeric_limits<double>::quiet_NaN();
  try {
    if (trainer_.train_step().outcome != Outcome::kRewound)
      validate_if_due(progress_.state.step == record->total_steps, record);
  } catch (...) {
    if (progress_.state.step == before) throw;
    failure = std::current_exception();
  }
  record->result = progress_.result;
  record->communication_bytes = trainer_.metrics().last_sent_bytes();
  record->tokens_per_second = trainer_.tokens_per_second();
  return failure;
}

void TrainLoop::validate_if_due(bool last, TrainRecord* record) {
  const int64_t every = config().train.eval_every;
  if (!dataset_ || dataset_->validation_samples() == 0 || every == 0) return;
  if (!last && progress_.state.step % every != 0) return;
  const std::optional<double> loss = validation_loss();
  if (!loss) return;
  record->validation_loss = *loss;
  record->best = record->validation_loss < progress_.state.best_validation_loss;
  if (record->best) progress_.state.best_validation_loss = record->validation_loss;
  if (record->best)
    progress_.state.validations_since_best = 0;
  else if (progress_.state.step % every ==
           0)  // a validation that is due only because the run ends does not count
    progress_.state.validations_since_best += 1;
  trainer_.validations().end_early(out_of_patience());
}

/// True if the run must end because the last train.patience validations were not better than the best one.
bool TrainLoop::out_of_patience() const {
  const int64_t patience = config().train.patience;
  return patience > 0 && progress_.state.validations_since_best >= patience;
}

/// Sums the requests of all processes after a step. The result is the same on all: end if one wants to, and
/// save by time if rank 0's clock is due.
TrainLoop::Wishes TrainLoop::agree(Wishes here) const {
  if (ranks_.all_local()) return here;
  constexpr int64_t kSave = int64_t{1} << 32;  // larger than any number of requests to stop
  int64_t sum = 0;
  ranks_.on_each([&](Rank& rank, int32_t i) {
    const bool saves = here.save && rank.number() == 0;
    const int64_t wishes = sum_over_ranks(rank.groups().dp.get(), (here.end ? 1 : 0) + (saves ? kSave : 0));
    if (i == 0) sum = wishes;
  });
  return {sum % kSave > 0, sum >= kSave};
}

/// Returns the mean loss on the validation data; nothing if cancelled, which ends the run after the step's
/// record.
std::optional<double> TrainLoop::validation_loss() {
  try {
    const double loss = trainer_.inference().eval(nullptr, 0).loss;
    trainer_.monitor().validated(loss);
    trainer_.events().validated(progress_.state.step, loss);
    return loss;
  } catch (const Error& error) {
    if (error.code() != Code::kCancelled) throw;
    return std::nullopt;
  }
}

}  // namespace hawser::train
