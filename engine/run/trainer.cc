#include "engine/run/trainer.h"
#include "engine/base/steady_clock.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "engine/assembly/learn_tokenizer.h"
#include "engine/assembly/precision.h"
#include "engine/base/error.h"
#include "engine/config/problems.h"
#include "engine/optim/lr_schedule.h"
#include "engine/state/initial_weights.h"

namespace hawser::train {
namespace {

std::unique_ptr<data::Dataset> open_data(const Assembly& a) {
  const config::ResolvedConfig& c = a.config;
  if (c.data.format == config::DataFormat::kNone) return nullptr;
  data::DataConfig data = c.data;
  data.length_group = c.batch.global_batch;
  return data::Dataset::open(data, a.vocabulary, c.seed, c.batch.sequence, c.model.vocab_size);
}

/// Returns the multiple that a micro-batch's columns are rounded up to; 0 if all columns are computed. On a
/// GPU, kernels are chosen for the planned shapes. Routers count padding too, so experts get all columns.
int64_t column_multiple(const config::ResolvedConfig& c, bool in_place) {
  constexpr int64_t kMultiple = 16;
  return in_place && c.model.moe.experts == 0 ? kMultiple : 0;
}

/// Repeats the config rule for /batch/micro_batch. The rule skips an objective that follows from the model,
/// because such a model may be opened for inference only.
void require_whole_examples(const config::ResolvedConfig& c) {
  if (c.batch.micro_batch % c.objective.rows_per_example() != 0)
    config::throw_if_any(
        {{"/batch/micro_batch",
          fmt::format("both answers of a pair must be in one micro-batch, but micro_batch {} is odd",
                      c.batch.micro_batch),
          fmt::format("use an even number such as {}", c.batch.micro_batch + 1)}});
}

/// Throws unless a step without a pushed batch has rows, with those of the teacher if there is one.
void require_rows(const config::ResolvedConfig& c, const data::Dataset* dataset,
                  const TeacherOutput& teacher) {
  if (dataset == nullptr)
    fail(Code::kFailedPrecondition,
         "there is no batch: push one (hws_data_push), set a source (hws_data_set_source), or set /data in "
         "the config");
  if (c.teacher.on() && teacher.identity.empty())
    fail(
        Code::kFailedPrecondition,
        "the config's data have no rows of the teacher (/teacher/top {}): set /teacher/from, or push batches "
        "with them (hws_data_push)",
        c.teacher.top);
}

/// Returns the attention scores of the last step; zeros if the config does not limit them.
optim::ScoreSummary scores_of(const Ranks& ranks) {
  return optim::summary_of(ranks.first().executor().head_scores(),
                           ranks.config().optimizer.qk_clip.value_or(0));
}

}  // namespace

std::unique_ptr<Trainer> Trainer::create(const config::ConfigTree& config, bool inference,
                                         std::atomic<bool>* cancel, std::shared_ptr<comm::Comm> comm,
                                         const Trainer* base) {
  return make(config, inference ? Purpose::kInference : Purpose::kTraining, cancel, std::move(comm), base);
}

std::unique_ptr<Trainer> Trainer::make(const config::ConfigTree& config, Purpose purpose,
                                       std::atomic<bool>* cancel, std::shared_ptr<comm::Comm> comm,
                                       const Trainer* base) {
  const bool inference = purpose != Purpose::kTraining;
  const auto connection = std::make_shared<Connection>(comm);
  try {
    Assembly assembly = assemble(config);
    std::optional<BaseEngine> lent;
    if (base) require_base(lent.emplace(BaseEngine{base->ranks_, base->tensors_, base->progress_}), assembly);
    assembly.config.init.on_engine = lent.has_value();
    if (!inference) require_whole_examples(assembly.config);
    learn_tokenizer(&assembly);
    const bool needs = purpose != Purpose::kReference && needs_references(assembly.config);
    const std::string kept = assembly.config.checkpoint.path;
    References references;
    if (const auto other = needs ? reference_config(assembly, inference) : std::nullopt)
      references =
          make(*other, Purpose::kReference, cancel, comm, nullptr)->ask_for_references(kept, inference);
    TeacherOutput teacher;
    if (!inference && needs_teacher(assembly.config))
      teacher = make(teacher_config(assembly), Purpose::kReference, cancel, comm, nullptr)
                    ->ask_for_pairs(kept, assembly.config.teacher.top);
    connection->connect(assembly.config);
    std::unique_ptr<Trainer> trainer(
        new Trainer(std::move(assembly), inference, cancel, connection, lent ? &*lent : nullptr));
    if (needs && !inference && references.identity.empty())
      references = trainer->ask_for_references(kept, false);
    if (!references.identity.empty()) trainer->dataset_->set_references(std::move(references.logprobs));
    trainer->references_ = std::move(references);
    if (!teacher.identity.empty()) trainer->dataset_->set_teacher(std::move(teacher.pairs));
    trainer->teacher_ = std::move(teacher);
    return trainer;
  } catch (const AgreedError&) {
    throw;
  } catch (...) {  // an early failure must not leave other processes waiting
    connection->abort(Error::caught());
    throw;
  }
}

Trainer::Trainer(Assembly assembly, bool inference, std::atomic<bool>* cancel,
                 std::shared_ptr<Connection> connection, const BaseEngine* base)
    : assembly_(std::move(assembly)),
      dataset_(open_data(assembly_)),  // may fail on one process, so it comes before the ranks connect
      ranks_(assembly_, inference, std::move(connection), base ? &base->ranks : nullptr),
      runs_(static_cast<size_t>(ranks_.here())),
      progress_(config(), fp8_history(config(), ranks_.model().table()), fill_initial_weights(ranks_, base)),
      cancel_(cancel, ranks_),
      fingerprint_(ranks_, dataset_.get()),
      saves_(ranks_, progress_, &fingerprint_),
      loads_(ranks_, &progress_, &fingerprint_, saves_.saver(), &monitor_),
      rewind_(config(), &progress_, &loads_),
      tensors_(ranks_, &progress_),
      export_(ranks_, progress_, tensors_, saves_.saver()),
      inference_(ranks_, dataset_.get(), &cancel_, &monitor_, &validations_),
      events_(ranks_.first().number() == 0 ? config().telemetry.tensorboard : ""),
      metrics_(ranks_, saves_.saver(), events_, validations_),
      traces_(ranks_, progress_, metrics_),
      reports_(ranks_, dataset_.get(), progress_, saves_, references_, teacher_),
      loop_(this, &progress_, &cancel_) {
  saves_.take_copies();
  ranks_.on_each(
      [&](Rank& rank, int32_t) { rank.executor().follow_fp8_maxima(progress_.fp8_history.maxima()); });
}

double Trainer::learning_rate() const {
  ranks_.require_training("hws_engine_learning_rate");
  return optim::learning_rate(config().schedule, config().optimizer.learning_rate, progress_.state.step + 1,
                              progress_.state.decay);
}

double Trainer::tokens_per_second() const {
  return static_cast<double>(progress_.result.rows * config().batch.sequence) / progress_.result.seconds;
}

/// Identifies the present weights.
std::string Trainer::identity() const {
  return assembly_.stored_model_json() + "\n" + std::to_string(config().seed) + "\n" + progress_.digests;
}

/// Makes references with the present weights on all rows of the data, or only on those that validate, or
/// reads them from the folder `kept`.
References Trainer::ask_for_references(const std::string& kept, bool only_validation) {
  return make_references(ranks_, *dataset_, identity(), fingerprint_.with_contents(), kept,
                         only_validation ? dataset_->train_samples() : 0);
}

/// Computes the likeliest tokens of all targets with the present weights, or reads them from the folder
/// `kept`.
TeacherOutput Trainer::ask_for_pairs(const std::string& kept, int64_t top) {
  return ask_teacher(ranks_, *dataset_, top, identity(), fingerprint_.with_contents(), kept);
}

StepResult Trainer::backward_with(const BatchView& batch, const float* gradients) {
  ranks_.require_training("hws_engine_backward_with");
  require_own_gradients(config().objective, config().teacher, config().model.ahead);
  require_room_for(batch);
  check_gradients(batch, gradients);
  progress_.pushed.set(batch, gradients);
  return forward_backward();
}

/// When it returns, no transfer is in flight, because the host program may now do anything.
StepResult Trainer::forward_backward() { return compute_gradients(false); }

StepResult Trainer::compute_gradients(bool update_follows) {
  const Monitor::InPhase in_phase(&monitor_, Phase::kTrain);
  ranks_.require_training("forward_backward");
  progress_.require_between_steps();
  const double start = steady_seconds();
  if (!progress_.pushed.waiting() && source_.is_set()) source_.fetch(ranks_, &progress_);
  const bool from_push = progress_.pushed.waiting();
  if (!from_push) require_rows(config(), dataset_.get(), teacher_);
  const bool weighs = config().objective.weighs_targets();
  const bool gradients = from_push && progress_.pushed.has_gradients();
  const bool mean_loss = !weighs && !gradients;  // the loss is the mean over unmasked targets
  const int64_t rows = next_rows();
  traces_.select(rows);
  metrics_.traffic().clear();
  metrics_.traffic().begin();
  try {
    ranks_.on_each([&](Rank& rank, int32_t i) {
      Run& run = runs_[static_cast<size_t>(i)] = {};
      run.batch = config().batch.micro_batch;
      run.seq = config().batch.sequence;
      run.training = true;
      run.step_rows = rows;
      run.mean_loss = mean_loss;
      run.update_follows = update_follows;
      run.loss_scale = progress_.loss_scale.scale();
      run.cancelled = cancel_.is_requested();
      run.documents = from_push ? progress_.pushed.view().document_begin != nullptr : config().data.packing;
      run.weights =
          weighs || (from_push ? progress_.pushed.view().weights != nullptr : dataset_->has_weights());
      const auto cursor = static_cast<uint64_t>(progress_.state.samples);
      const int64_t first_row = rank.first_row(rows);
      BatchViewSource pushed(progress_.pushed.view(), first_row, cursor);
      std::optional<DatasetSource> data;
      if (dataset_)
        data.emplace(*dataset_, data::Split::kTrain, cursor + static_cast<uint64_t>(first_row),
                     column_multiple(config(), rank.link().in_place()));
      run.source = from_push ? static_cast<BatchSource*>(&pushed) : &*data;
      const plan::Plan& plan = rank.train_plan(rows);
      rank.executor().run(plan, 0, plan.commit, &run);
    });
  } catch (...) {
    progress_.pushed.drop();
    throw;
  }
  metrics_.traffic().end();
  const Run& run = runs_.front();
  cancel_.merge_agreed(run.cancelled);
  progress_.pending = true;
  const double loss = mean_loss ? run.loss_sum / static_cast<double>(run.tokens) : run.loss_sum;
  progress_.result = {Outcome::kPending,       progress_.state.step + 1, loss,
                      run.grad_norm,           learning_rate(),          run.tokens,
                      progress_.state.samples, progress_.state.skipped,  steady_seconds() - start};
  progress_.result.rows = rows, progress_.result.loss_scale = progress_.loss_scale.scale();
  progress_.result.rewards = ranks_.first().executor().rewards();
  progress_.result.scores = scores_of(ranks_);
  for (size_t d = 0; d < run.ahead_tokens.size(); ++d)
    if (run.ahead_tokens[d] > 0)
      progress_.result.ahead_losses[d] = run.ahead_losses[d] / static_cast<double>(run.ahead_tokens[d]);
  return progress_.result;
}

StepResult Trainer::commit() {
  const Monitor::InPhase in_phase(&monitor_, Phase::kTrain);
  ranks_.require_usable();
  progress_.require_pending();
  require_no_overflow();
  const double start = steady_seconds();
  const double clip = config().optimizer.clip_norm;
  const double factor = clip > 0 ? std::min(1.0, clip / (progress_.result.grad_norm + 1e-6)) : 1.0;
  const kernels::OptimizerScalars scalars =
      optim::step_scalars(config().optimizer, progress_.result.learning_rate,
                          factor / progress_.result.loss_scale, progress_.state.accepted + 1);
  metrics_.traffic().begin();
  progress_.pending = false;  // whatever happens, this step is over
  progress_.pushed.drop();
  ranks_.on_each([&](Rank& rank, int32_t i) {
    ranks_.set_changing("the update of the last step");
    rank.executor().set_scalars(scalars);
    const plan::Plan& plan = rank.train_plan(progress_.result.rows);
    rank.executor().run(plan, plan.commit, plan.instructions.size(), &runs_[static_cast<size_t>(i)]);
  });
  ranks_.set_changing(nullptr);
  metrics_.traffic().end();
  progress_.state.accepted += 1;
  progress_.state.skipped_in_row = 0;
  progress_.guard.accepted(progress_.result.loss, progress_.result.grad_norm);
  progress_.loss_scale.finite();
  progress_.fp8_history.fold(ranks_.first().executor().fp8_maxima());
  progress_.result.seconds += steady_seconds() - start;
  return end_step(Outcome::kAccepted, true);
}

StepResult Trainer::discard(bool rewind) {
  progress_.require_pending();
  const bool overflows = is_overflow();
  if (!rewind) count_skip();
  if (overflows) progress_.loss_scale.overflowed();
  return end_step(Outcome::kDiscarded, !rewind);
}

/// True if the step's gradients overflowed at its loss scale. The sums over ranks have the same bits on all
/// ranks, so all agree.
bool Trainer::is_overflow() const {
  return progress_.loss_scale.overflows(progress_.result.loss, progress_.result.grad_norm);
}

void Trainer::require_no_overflow() const {
  if (is_overflow())
    fail(Code::kFailedPrecondition,
         "step {} overflowed at loss scale {:g} (loss {}, gradient norm {}), so it cannot be committed: "
         "discard it (hws_engine_discard), which also lowers the scale",
         progress_.result.step, progress_.result.loss_scale, progress_.result.loss,
         progress_.result.grad_norm);
}

/// Counts a step that is dropped. One that overflows is no reason to stop while the loss scale can shrink.
void Trainer::count_skip() {
  progress_.state.skipped += 1;
  if (!is_overflow() || !progress_.loss_scale.can_shrink()) progress_.state.skipped_in_row += 1;
}

/// Ends the step without its update phase, because the guard or the loss scale refuses it.
void Trainer::skip(Outcome outcome) {
  count_skip();
  if (outcome == Outcome::kSkippedOverflow)
    progress_.loss_scale.overflowed();
  else
    progress_.loss_scale.finite();
  end_step(outcome, true);
}

/// Goes back to a checkpoint if the config asks for it and there is one.
void Trainer::skip_outlier() {
  std::shared_ptr<const checkpoint::Reader> target;
  try {
    target = rewind_.target();
  } catch (...) {
    end_step(Outcome::kDiscarded, false);
    throw;
  }
  if (!target) return skip(Outcome::kSkippedOutlier);
  end_step(Outcome::kRewound, false);
  rewind_.go_to(*target);
}

StepResult Trainer::end_step(Outcome outcome, bool advance) {
  if (outcome != Outcome::kAccepted) drop_fetched();
  progress_.pending = false;
  progress_.pushed.drop();
  if (advance) {
    progress_.state.step += 1;
    progress_.state.samples += progress_.result.rows;
  }
  progress_.result.outcome = outcome;
  progress_.result.samples = progress_.state.samples;
  progress_.result.skipped = progress_.state.skipped;
  metrics_.take(progress_.result);
  monitor_.record(progress_.result);
  if (advance) events_.record(progress_.result, tokens_per_second(), metrics_.last_sent_bytes());
  return progress_.result;
}

/// Drops what the gradient phase has fetched for an update phase that does not come. If ranks can no longer
/// be called, nothing uses it either.
void Trainer::drop_fetched() {
  if (ranks_.broken() || ranks_.is_changing()) return;
  ranks_.on_each([](Rank& rank, int32_t) { rank.executor().drop_fetched(); });
}

StepResult Trainer::train_step() {
  if (ranks_.all_local())
    saves_.saver().rethrow_unreported_error();  // several processes report it at the next save or train
  compute_gradients(true);
  const optim::Verdict verdict = progress_.guard.judge(progress_.result.loss, progress_.result.grad_norm);
  if (is_overflow())
    skip(Outcome::kSkippedOverflow);
  else if (verdict == optim::Verdict::kAccept)
    commit();
  else if (verdict == optim::Verdict::kNonFinite)
    skip(Outcome::kSkippedNonFinite);
  else
    skip_outlier();
  metrics_.tell();
  if (progress_.state.skipped_in_row >= config().guard.max_consecutive_skips)
    fail(Code::kNumeric,
         "training stopped at step {}: {} steps in a row were skipped (last: loss {}, gradient norm {}); "
         "lower "
         "/optimizer/learning_rate, check the data, or raise /guard/max_consecutive_skips",
         progress_.state.step, progress_.state.skipped_in_row, progress_.result.loss,
         progress_.result.grad_norm);
  return progress_.result;
}

void Trainer::set_source(HostSource::Fill fill) {
  ranks_.require_training("hws_data_set_source");
  require_sourced(config().objective, config().teacher);
  source_.set(std::move(fill));
}

void Trainer::push(const BatchView& batch) {
  ranks_.require_training("hws_data_push");
  require_room_for(batch);
  progress_.pushed.set(batch);
}

/// Throws if the batch of the host program is not valid, or if a step or another batch is pending.
void Trainer::require_room_for(const BatchView& batch) const {
  progress_.require_between_steps();
  if (progress_.pushed.waiting()) fail(Code::kBusy, "a pushed batch is waiting already: take a step first");
  if (batch.rows != next_rows() || batch.cols != config().batch.sequence) {
    const bool ramp = config().batch.has_sizes();
    fail(Code::kInvalidArgument, "the batch is {} x {}; {} takes {} x {} ({} x /batch/sequence)", batch.rows,
         batch.cols, ramp ? "the next step" : "a step", next_rows(), config().batch.sequence,
         ramp ? "/batch/ramp" : "/batch/global_batch");
  }
  check_batch(batch, config().model.vocab_size, config().batch.sequence, true);
  check_for_objective(batch, config().objective);
  check_for_teacher(batch, config().teacher, config().model.vocab_size);
}

}  // namespace hawser::train
