#include "engine/train/trainer.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "engine/base/error.h"
#include "engine/optim/lr_schedule.h"
#include "engine/train/agreement.h"
#include "engine/train/trainer_impl.h"
#include "kernels/include/levels.h"

namespace hawser::train {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::unique_ptr<data::Dataset> open_data(const Assembly& a) {
  const config::ResolvedConfig& c = a.config;
  if (c.data.format == config::DataFormat::kNone) return nullptr;
  return data::Dataset::open(c.data, a.vocabulary, c.seed, c.batch.sequence, c.model.vocab_size);
}

int32_t ranks_here(const comm::Comm* comm) {
  return comm ? static_cast<int32_t>(comm->local_ranks().size()) : 1;
}

/// The world's size; throws kConfigInvalid unless the mesh has as many ranks.
int64_t world_of(const comm::Comm* comm, const config::ResolvedConfig& c) {
  const int64_t world = comm ? comm->world_size() : 1;
  if (world != c.mesh.dp())
    fail(Code::kConfigInvalid,
         "/mesh has {} ranks (dp_replicate {} x dp_shard {}), but {} {}; make them equal", c.mesh.dp(),
         c.mesh.dp_replicate, c.mesh.dp_shard,
         comm ? "the comm connects" : "an engine without a comm (hws_engine_create_ranks) has", world);
  return world;
}

/// A process that fails before its ranks connect (a file that only it lacks) must not let the others wait.
void tell_other_processes(comm::Comm* comm, const Error& error) noexcept {
  if (static_cast<size_t>(comm->world_size()) == comm->local_ranks().size()) return;
  try {
    comm::CommOptions options;
    options.kernels = &kernels::cpu_kernels(kernels::best_cpu_level());
    comm->connect(comm->local_ranks().front(), options)->abort(error.code(), error.message());
  } catch (const std::exception&) {  // it is broken already, and they know
  }
}

}  // namespace

std::unique_ptr<Trainer> Trainer::create(const config::ConfigTree& config, bool inference,
                                         std::atomic<bool>* cancel, std::shared_ptr<comm::Comm> comm) {
  try {
    return std::make_unique<TrainerImpl>(assemble(config), inference, cancel, comm);
  } catch (const AgreedError&) {
    throw;
  } catch (const Error& error) {
    if (comm) tell_other_processes(comm.get(), error);
    throw;
  }
}

TrainerImpl::TrainerImpl(Assembly assembly, bool inference, std::atomic<bool>* cancel,
                         std::shared_ptr<comm::Comm> comm)
    : a_(std::move(assembly)),
      config_(a_.config),
      inference_(inference),
      cancel_(cancel),
      model_(config_.model, config_.init.scale_residual, config_.optimizer.frozen),
      kernels_(choose_kernels(config_)),
      dataset_(open_data(a_)),
      comm_(std::move(comm)),
      world_(world_of(comm_.get(), config_)),
      threads_(choose_threads(config_, ranks_here(comm_.get()))),
      plans_(make_plans(model_, config_, kernels_, threads_, inference)),
      optimizer_(model_.table(), config_.optimizer),
      guard_(config_.guard),
      shared_{model_, config_, kernels_, plans_, optimizer_, mesh_of(config_), threads_, inference},
      team_(ranks_here(comm_.get())),
      runs_(static_cast<size_t>(team_.size())),
      saver_(config_.checkpoint) {
  check_memory(plans_, model_, config_, kernels_, threads_, team_.size(), inference);
  if (config_.checkpoint.async) require_one_process("/checkpoint/async");
  make_ranks();
  initialize_weights();
}

/// All ranks connect at the same time, each on its thread. One that fails tells the others.
void TrainerImpl::make_ranks() {
  ranks_.resize(static_cast<size_t>(team_.size()));
  if (world_ == 1) {
    ranks_[0] = std::make_unique<Rank>(shared_, 0, nullptr);
    traffic_.emplace(first().groups());
    return;
  }
  comm::CommOptions options;
  options.timeout_seconds = config_.comm.timeout_seconds;
  options.bandwidth_limit = config_.comm.bandwidth_limit;
  options.kernels = &kernels_;
  for (const int32_t rank : comm_->local_ranks()) ends_.push_back(comm_->connect(rank, options));
  team_.run([&](int32_t i) {
    const auto at = static_cast<size_t>(i);
    try {
      agree_on_config(ends_[at].get(), a_.tree.to_json(), kernels_.name);
      ranks_[at] = std::make_unique<Rank>(shared_, ends_[at]->rank(), ends_[at].get());
    } catch (const AgreedError&) {
      throw;
    } catch (const Error& error) {
      ends_[at]->abort(error.code(), error.message());
      throw;
    }
  });
  traffic_.emplace(first().groups());
}

void TrainerImpl::check_ranks() const {
  if (broken_)
    fail(Code::kAborted,
         "the ranks of this engine lost each other in an earlier call; make a new engine and load the last "
         "checkpoint");
}

void TrainerImpl::require_training(const char* what) const {
  if (inference_)
    fail(Code::kFailedPrecondition,
         "{}: this engine was created for inference (HWS_ENGINE_INFERENCE) and cannot train", what);
}

void TrainerImpl::require_pending(bool pending) const {
  if (pending_ == pending) return;
  if (pending) fail(Code::kFailedPrecondition, "no step is pending: call forward_backward first");
  fail(Code::kFailedPrecondition, "a step is pending: commit or discard it first");
}

StepResult TrainerImpl::forward_backward() {
  require_training("forward_backward");
  require_pending(false);
  if (!pushed_.waiting() && dataset_ == nullptr)
    fail(Code::kFailedPrecondition, "there is no batch: push one (hws_data_push), or give the config data");
  const double start = now();
  const bool from_push = pushed_.waiting();
  traffic_->clear();
  try {
    step_on_ranks([&](Rank& rank, int32_t i) {
      Run& run = runs_[static_cast<size_t>(i)] = {};
      run.batch = config_.batch.micro_batch;
      run.seq = config_.batch.sequence;
      run.training = true;
      run.cancelled = cancel_->load();
      run.documents = from_push ? pushed_.view().document_begin != nullptr : config_.data.packing;
      const auto cursor = static_cast<uint64_t>(state_.samples);
      BatchViewSource pushed(pushed_.view(), rank.first_row(), cursor);
      std::optional<DatasetSource> data;
      if (dataset_)
        data.emplace(*dataset_, data::Split::kTrain, cursor + static_cast<uint64_t>(rank.first_row()));
      run.source = from_push ? static_cast<BatchSource*>(&pushed) : &*data;
      rank.executor().run(plans_.train, 0, plans_.train.commit, &run);
    });
  } catch (...) {
    pushed_.drop();
    throw;
  }
  const Run& run = runs_.front();
  agreed_cancel_ = agreed_cancel_ || run.cancelled;
  learning_rate_ = optim::learning_rate(config_.schedule, config_.optimizer.learning_rate, state_.step + 1);
  pending_ = true;
  result_ = {Outcome::kPending, state_.step + 1, run.loss_sum / static_cast<double>(run.tokens),
             run.grad_norm,     learning_rate_,  run.tokens,
             state_.samples,    state_.skipped,  now() - start};
  return result_;
}

StepResult TrainerImpl::commit() {
  require_pending(true);
  const double start = now();
  const double clip = config_.optimizer.clip_norm;
  const double factor = clip > 0 ? std::min(1.0, clip / (result_.grad_norm + 1e-6)) : 1.0;
  const kernels::OptimizerScalars scalars = optimizer_.scalars(learning_rate_, factor, state_.accepted + 1);
  step_on_ranks([&](Rank& rank, int32_t i) {
    rank.executor().scalars()->optimizer = scalars;
    rank.executor().run(plans_.train, plans_.train.commit, plans_.train.instructions.size(),
                        &runs_[static_cast<size_t>(i)]);
  });
  state_.accepted += 1;
  state_.skipped_in_row = 0;
  guard_.accepted(result_.loss, result_.grad_norm);
  result_.seconds += now() - start;
  return end_step(Outcome::kAccepted, true);
}

StepResult TrainerImpl::discard(bool rewind) {
  require_pending(true);
  if (!rewind) state_.skipped += 1, state_.skipped_in_row += 1;
  return end_step(Outcome::kDiscarded, !rewind);
}

StepResult TrainerImpl::end_step(Outcome outcome, bool advance) {
  pending_ = false;
  pushed_.drop();
  if (advance) {
    state_.step += 1;
    state_.samples += config_.batch.global_batch;
  }
  result_.outcome = outcome;
  result_.samples = state_.samples;
  result_.skipped = state_.skipped;
  {
    const std::lock_guard lock(metrics_mutex_);
    last_ = result_;
    last_traffic_ = traffic_->step();
  }
  return result_;
}

StepResult TrainerImpl::train_step() {
  if (!training_ && stop_requested()) fail(Code::kCancelled, "cancelled before step {}", state_.step + 1);
  saver_.raise_unheard();
  forward_backward();
  const optim::Verdict verdict = guard_.judge(result_.loss, result_.grad_norm);
  if (verdict == optim::Verdict::kAccept) {
    commit();
  } else {
    state_.skipped += 1;
    state_.skipped_in_row += 1;
    end_step(verdict == optim::Verdict::kNonFinite ? Outcome::kSkippedNonFinite : Outcome::kSkippedOutlier,
             true);
  }
  if (metrics_fn_) metrics_fn_(metrics_json());
  if (state_.skipped_in_row >= config_.guard.max_consecutive_skips)
    fail(Code::kNumeric,
         "training stopped at step {}: {} steps in a row were skipped (last: loss {}, gradient norm {}); "
         "lower "
         "/optimizer/learning_rate, check the data, or raise /guard/max_consecutive_skips",
         state_.step, state_.skipped_in_row, result_.loss, result_.grad_norm);
  return result_;
}

void TrainerImpl::push(const BatchView& batch) {
  require_training("hws_data_push");
  require_pending(false);
  if (pushed_.waiting()) fail(Code::kBusy, "a pushed batch is waiting already: take a step first");
  if (batch.rows != config_.batch.global_batch || batch.cols != config_.batch.sequence)
    fail(Code::kInvalidArgument,
         "the pushed batch is {} x {}; a step takes {} x {} (/batch/global_batch x /batch/sequence)",
         batch.rows, batch.cols, config_.batch.global_batch, config_.batch.sequence);
  check_batch(batch, config_.model.vocab_size, config_.batch.sequence, true);
  pushed_.set(batch);
}

}  // namespace hawser::train
