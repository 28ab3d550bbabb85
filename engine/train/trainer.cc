#include "engine/train/trainer.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "engine/base/error.h"
#include "engine/optim/lr_schedule.h"
#include "engine/train/ranks/agreement.h"
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

/// Nothing for a world of one.
void connect(ConnectedRanks* ranks, const config::ResolvedConfig& config) {
  if (world_of(ranks->comm.get(), config) == 1) return;
  comm::CommOptions options;
  options.timeout_seconds = config.comm.timeout_seconds;
  options.bandwidth_limit = config.comm.bandwidth_limit;
  options.kernels = &choose_kernels(config);
  for (const int32_t rank : ranks->comm->local_ranks())
    ranks->ends.push_back(ranks->comm->connect(rank, options));
}

}  // namespace

std::unique_ptr<Trainer> Trainer::create(const config::ConfigTree& config, bool inference,
                                         std::atomic<bool>* cancel, std::shared_ptr<comm::Comm> comm) {
  const auto ranks = std::make_shared<ConnectedRanks>();
  ranks->comm = std::move(comm);
  try {
    Assembly assembly = assemble(config);
    connect(ranks.get(), assembly.config);
    return std::make_unique<TrainerImpl>(std::move(assembly), inference, cancel, ranks);
  } catch (const AgreedError&) {
    throw;
  } catch (...) {  // what failed before the ranks were whole must not let other processes wait
    if (ranks->comm) ranks->comm->abort(Error::caught());
    throw;
  }
}

TrainerImpl::TrainerImpl(Assembly assembly, bool inference, std::atomic<bool>* cancel,
                         std::shared_ptr<ConnectedRanks> connected)
    : a_(std::move(assembly)),
      config_(a_.config),
      inference_(inference),
      cancel_(cancel),
      model_(config_.model, config_.init.scale_residual, config_.optimizer.frozen),
      connected_(std::move(connected)),
      team_(ranks_here(connected_->comm.get())),
      world_(world_of(connected_->comm.get(), config_)),
      dataset_(open_data(a_)),  // what may fail here alone comes before the ranks meet
      device_(choose_device(config_.device)),
      kernels_(agree_on_kernels()),
      threads_(choose_threads(config_, team_.size())),
      machines_(make_machines()),
      transport_(agree_on_peers()),
      plans_(make_plans_that_fit(model_, a_, target(), machines_.front()->room(device_, team_.size()),
                                 inference)),
      optimizer_(model_.table(), config_.optimizer, state_type(config_), config_.seed),
      guard_(config_.guard),
      shared_{model_, config_, plans_, optimizer_, mesh_of(config_), inference},
      runs_(static_cast<size_t>(team_.size())),
      saver_(config_.checkpoint) {
  if (config_.checkpoint.async) require_one_process("/checkpoint/async");
  make_ranks();
  on_ranks([&](Rank& rank, int32_t i) {
    const Choices choices = rehearse(&rank, config_.deterministic);
    if (i == 0) choices_ = choices;
  });
  initialize_weights();
  take_staging();
}

std::vector<std::unique_ptr<Machine>> TrainerImpl::make_machines() const {
  std::vector<std::unique_ptr<Machine>> machines;
  const std::vector<std::unique_ptr<comm::RankComm>>& ends = connected_->ends;
  for (int32_t i = 0; i < team_.size(); ++i) {
    const bool chooses = ends.empty() || ends[static_cast<size_t>(i)]->rank() == 0;
    machines.push_back(std::make_unique<Machine>(device_, config_, kernels_, threads_, i, chooses));
  }
  return machines;
}

/// fn(end, its index here) on the thread of every rank here. One that fails tells the others.
template <typename Fn>
void TrainerImpl::on_ends(Fn&& fn) const {
  team_.run([&](int32_t i) {
    comm::RankComm* const end = connected_->ends[static_cast<size_t>(i)].get();
    try {
      fn(end, static_cast<size_t>(i));
    } catch (const AgreedError&) {
      throw;
    } catch (...) {
      throw told_others(end, Error::caught());
    }
  });
}

/// The config's kernels, or lower ones where another rank of the world has no others. Its first word to them.
const kernels::KernelTable& TrainerImpl::agree_on_kernels() const {
  const kernels::KernelTable& mine = choose_kernels(config_);
  if (world_ == 1) return mine;
  const auto my_level = static_cast<kernels::CpuLevel>(kernels::cpu_level_from_name(mine.name));
  kernels::CpuLevel level = my_level;
  on_ends([&](comm::RankComm* end, size_t i) {
    const kernels::CpuLevel lowest =
        agree_on_start(end, {a_.tree.to_json(), my_level, kind_name(device_.kind), device_.reason});
    if (i == 0) level = lowest;
  });
  return kernels::cpu_kernels(level);
}

TransportChoice TrainerImpl::agree_on_peers() const {
  if (world_ == 1 || config_.device == "cpu") return {};
  TransportChoice agreed;
  on_ends([&](comm::RankComm* end, size_t i) {
    const TransportChoice choice =
        agree_on_transport(end, device_, config_.comm.device_transport, machines_[i]->device().info());
    if (i == 0) agreed = choice;
  });
  return agreed;
}

Target TrainerImpl::target() const {
  Target target = machines_.front()->target();
  target.peers = transport_.peers;
  if (team_.size() < world_) target.transport_bytes = comm::process_transport_bytes(world_);
  return target;
}

void TrainerImpl::make_ranks() {
  ranks_.resize(static_cast<size_t>(team_.size()));
  if (world_ == 1)
    ranks_[0] = std::make_unique<Rank>(shared_, 0, nullptr, machines_.front().get());
  else
    on_ends([&](comm::RankComm* end, size_t i) {
      ranks_[i] = std::make_unique<Rank>(shared_, end->rank(), end, machines_[i].get());
    });
  traffic_.emplace(first().groups());
}

void TrainerImpl::check_ranks() const {
  if (broken_)
    fail(Code::kAborted,
         "the ranks of this engine lost each other in an earlier call; make a new engine and load the last "
         "checkpoint");
  if (half_loaded_)
    fail(Code::kFailedPrecondition,
         "the last hws_checkpoint_load failed when it had changed a part of the weights; load a checkpoint");
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

void TrainerImpl::ran_dry() noexcept {
  if (all_here()) return;
  broken_ = true;
  connected_->ends.front()->abort(Error::out_of_memory());
}

Sizes TrainerImpl::sizes() const {
  return {config_.model.vocab_size, config_.batch.sequence, config_.batch.global_batch};
}

double TrainerImpl::learning_rate() const {
  require_training("hws_engine_learning_rate");
  return optim::learning_rate(config_.schedule, config_.optimizer.learning_rate, state_.step + 1);
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
  pending_ = true;
  result_ = {Outcome::kPending, state_.step + 1, run.loss_sum / static_cast<double>(run.tokens),
             run.grad_norm,     learning_rate(), run.tokens,
             state_.samples,    state_.skipped,  now() - start};
  return result_;
}

StepResult TrainerImpl::commit() {
  require_pending(true);
  const double start = now();
  const double clip = config_.optimizer.clip_norm;
  const double factor = clip > 0 ? std::min(1.0, clip / (result_.grad_norm + 1e-6)) : 1.0;
  const kernels::OptimizerScalars scalars =
      optimizer_.scalars(result_.learning_rate, factor, state_.accepted + 1);
  step_on_ranks([&](Rank& rank, int32_t i) {
    rank.executor().set_scalars(scalars);
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
