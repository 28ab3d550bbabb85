// The train loop: steps, validation when it is due, checkpoints when they are due, a record for the host
// after each step; and how a run ends, so that nothing of it is lost.
#include <fmt/format.h>

#include <chrono>
#include <exception>
#include <functional>
#include <limits>

#include "engine/base/error.h"
#include "engine/train/ranks/agreement.h"
#include "engine/train/ranks/together.h"
#include "engine/train/save/save_clock.h"
#include "engine/train/trainer_impl.h"

namespace hawser::train {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

void TrainerImpl::train(int64_t until_step, const std::function<bool(const TrainRecord&)>& fn) {
  require_training("train");
  require_pending(false);
  saver_.raise_unheard();
  hold_run_folder();
  const int64_t total = until_step > 0 ? until_step : config_.train.steps;
  if (!config_.checkpoint.path.empty()) data_as_saved();  // now, while they are whole
  training_ = true;
  const std::unique_ptr<bool, void (*)(bool*)> leave(&training_, [](bool* training) { *training = false; });
  const int64_t began = state_.step;
  int64_t kept = began;  // the step whose state needs no save
  bool cancelled = false;
  std::exception_ptr failure;
  try {
    cancelled = take_steps(total, fn, &kept);
  } catch (...) {
    failure = std::current_exception();
  }
  const bool ran = state_.step > began;
  if (failure) {
    if (ran) end_failed_run(kept == state_.step);
    std::rethrow_exception(failure);
  }
  if (ran || cancelled) end_run(ran && kept == state_.step);
  if (cancelled) fail(Code::kCancelled, "training was cancelled after step {}", state_.step);
}

/// Until `total`, or until somebody wishes to end: true if that was by cancelling. *kept: the last step whose
/// checkpoint is there or on its way.
bool TrainerImpl::take_steps(int64_t total, const std::function<bool(const TrainRecord&)>& fn,
                             int64_t* kept) {
  const config::CheckpointConfig& c = config_.checkpoint;
  SaveClock clock(c.path.empty() ? 0 : c.every_seconds, now());
  bool stop = stop_requested(), save_by_time = false;
  while (!stop && state_.step < total) {
    TrainRecord record;
    record.total_steps = total;
    const std::exception_ptr failure = step_and_validate(&record);
    const bool last = state_.step == total;
    const DueCheckpoints due = {state_.step,
                                last || save_by_time || (c.every > 0 && state_.step % c.every == 0),
                                record.best && c.keep_best};
    record.saved = due.step_checkpoint && !c.path.empty();
    record.save_failures = saver_.failures().count;
    // The host hears of a step before its checkpoint is there: a record is never missing for a step that a
    // resumed run begins with.
    const bool enough = fn && !fn(record);
    if (failure) std::rethrow_exception(failure);
    const double begin = now();
    if (save_into_run(due)) *kept = state_.step;
    const double end = now();
    if (due.any()) clock.saved(begin, end);
    const Wishes agreed = agree({enough, clock.due(end) && !saver_.running()});
    if (agreed.end) return false;
    save_by_time = agreed.save;
    stop = stop_requested();
  }
  return stop;
}

/// A step and what belongs to its record. What fails when the step is taken already is returned, so that the
/// host hears of the step before.
std::exception_ptr TrainerImpl::step_and_validate(TrainRecord* record) {
  const int64_t before = state_.step;
  std::exception_ptr failure;
  record->validation_loss = std::numeric_limits<double>::quiet_NaN();
  try {
    train_step();
    validate_if_due(state_.step == record->total_steps, record);
  } catch (...) {
    if (state_.step == before) throw;
    failure = std::current_exception();
  }
  record->result = result_;
  record->communication_bytes = sum(last_traffic_).bytes;
  record->tokens_per_second =
      static_cast<double>(config_.batch.global_batch * config_.batch.sequence) / result_.seconds;
  return failure;
}

void TrainerImpl::validate_if_due(bool last, TrainRecord* record) {
  const int64_t every = config_.train.eval_every;
  if (!dataset_ || dataset_->validation_samples() == 0 || every == 0) return;
  if (!last && state_.step % every != 0) return;
  record->validation_loss = validation_loss();
  record->best = record->validation_loss < state_.best_validation_loss;
  if (record->best) state_.best_validation_loss = record->validation_loss;
}

/// What processes wish after a step, as all of them know it: the end if any does; a save of the next step by
/// time if rank 0's clock says so.
TrainerImpl::Wishes TrainerImpl::agree(Wishes here) const {
  if (all_here()) return here;
  constexpr int64_t kSave = int64_t{1} << 32;  // beyond the number of ranks that wish to end
  int64_t sum = 0;
  on_ranks([&](Rank& rank, int32_t i) {
    const bool saves = here.save && rank.number() == 0;
    const int64_t wishes = sum_over_ranks(rank.groups().dp.get(), (here.end ? 1 : 0) + (saves ? kSave : 0));
    if (i == 0) sum = wishes;
  });
  return {sum % kSave > 0, sum >= kSave};
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
