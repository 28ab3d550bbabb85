#include "engine/train/trainer.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "engine/base/error.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/nn/initial_values.h"
#include "engine/nn/rope_table.h"
#include "engine/optim/lr_schedule.h"
#include "engine/train/trainer_impl.h"

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

}  // namespace

std::unique_ptr<Trainer> Trainer::create(const config::ConfigTree& config, bool inference,
                                         std::atomic<bool>* cancel) {
  return std::make_unique<TrainerImpl>(assemble(config), inference, cancel);
}

TrainerImpl::TrainerImpl(Assembly assembly, bool inference, std::atomic<bool>* cancel)
    : a_(std::move(assembly)),
      config_(a_.config),
      inference_(inference),
      cancel_(cancel),
      model_(config_.model, config_.init.scale_residual),
      kernels_(choose_kernels(config_)),
      dataset_(open_data(a_)),
      plans_(make_plans(model_, config_, kernels_, choose_threads(config_), inference)),
      pool_(choose_threads(config_)),
      optimizer_(model_.table(), config_.optimizer),
      guard_(config_.guard) {
  check_memory(plans_, model_, config_, kernels_, pool_.threads(), inference);
  arena_ = device::Arena::create(plans_.arena_bytes);
  executor_ = std::make_unique<Executor>(
      Executor::Setup{&model_, inference ? nullptr : &optimizer_, &kernels_, &pool_.stream(), arena_,
                      compute_type(config_), philox_derive(config_.seed, 2, 0)},
      plans_.any());
  if (executor_->state().rope_table)
    nn::fill_rope_table(executor_->state().rope_table, config_.model, config_.batch.sequence);
  initialize_weights();
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

/// bf16 weights follow their masters.
void TrainerImpl::refresh_copy() {
  const StateBuffers& s = executor_->state();
  if (compute_type(config_) == DType::kF32 || s.master == nullptr) return;
  kernels_.convert({s.weights, s.master, compute_type(config_), DType::kF32, model_.table().flat_size()},
                   pool_.stream());
}

StepResult TrainerImpl::forward_backward() {
  require_training("forward_backward");
  require_pending(false);
  if (!pushed_.waiting() && dataset_ == nullptr)
    fail(Code::kFailedPrecondition, "there is no batch: push one (hws_data_push), or give the config data");
  const double start = now();
  run_ = {};
  run_.batch = config_.batch.micro_batch;
  run_.seq = config_.batch.sequence;
  run_.training = true;
  const auto cursor = static_cast<uint64_t>(state_.samples);
  BatchViewSource pushed(pushed_.view(), 0, cursor);
  std::optional<DatasetSource> data;
  if (dataset_) data.emplace(*dataset_, data::Split::kTrain, cursor);
  const bool from_push = pushed_.waiting();
  run_.source = from_push ? static_cast<BatchSource*>(&pushed) : &*data;
  run_.documents = from_push ? pushed_.view().document_begin != nullptr : config_.data.packing;
  try {
    executor_->run(plans_.train, 0, plans_.train.commit, &run_);
  } catch (...) {
    pushed_.drop();
    throw;
  }
  run_.source = nullptr;

  learning_rate_ = optim::learning_rate(config_.schedule, config_.optimizer.learning_rate, state_.step + 1);
  pending_ = true;
  result_ = {Outcome::kPending, state_.step + 1, run_.loss_sum / static_cast<double>(run_.tokens),
             run_.grad_norm,    learning_rate_,  run_.tokens,
             state_.samples,    state_.skipped,  now() - start};
  return result_;
}

StepResult TrainerImpl::commit() {
  require_pending(true);
  const double start = now();
  const double clip = config_.optimizer.clip_norm;
  const double factor = clip > 0 ? std::min(1.0, clip / (run_.grad_norm + 1e-6)) : 1.0;
  executor_->state().scalars->optimizer = optimizer_.scalars(learning_rate_, factor, state_.accepted + 1);
  executor_->run(plans_.train, plans_.train.commit, plans_.train.instructions.size(), &run_);
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
  }
  return result_;
}

StepResult TrainerImpl::train_step() {
  if (!training_ && take_cancel()) fail(Code::kCancelled, "cancelled before step {}", state_.step + 1);
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
