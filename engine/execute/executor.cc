#include "engine/execute/executor.h"

#include <limits>

#include "engine/base/error.h"
#include "engine/execute/agreed_error.h"
#include "engine/optim/grad_norm.h"

namespace hawser::train {

using plan::Op, plan::Operand;

/// From the second run of a shape on, segments are launched as captured graphs.
void Executor::run(const plan::Plan& plan, size_t begin, size_t end, Run* run) {
  const bool lacks_fetched = this->begin(plan, begin);
  recording_ = trace_ && trace_->is_of(plan) ? trace_ : nullptr;
  KernelProfile* const profile = recording_ ? recording_->profile() : nullptr;
  device::Device& device = s_.memory.link->device();
  kernels_ = profile ? &profile->table() : &device.kernels();
  stream_ = profile ? &profile->stream() : &device.stream(device::StreamId::kCompute);
  if (recording_) recording_->begin_half(begin);
  // A graph fixes kernel arguments passed by value, and a batch may have other documents than the one before.
  const bool fixed = !run->documents && recording_ == nullptr;
  StepGraphs::CapturedRange* const range =
      fixed ? graphs_.range(plan, begin, end, {run->batch, run->seq, run->training, run->weights}) : nullptr;
  // Clean up on failure: no slot may stay live and no transfer in flight.
  try {
    if (lacks_fetched) fetch_again(plan);
    const bool in_graphs = captures(plan, range, run);
    auto segment = in_graphs ? range->segments.begin() : decltype(range->segments.begin()){};
    for (size_t i = begin; i < end;) {
      if (in_graphs && segment != range->segments.end() && segment->at.begin == i) {
        run_segment(plan, &*segment, run);
        i = segment++->at.end;
      } else if (plan.instructions[i].overlaps_next) {
        step_pair(plan, i, run);
        i += 2;
      } else {
        step(plan, i++, run);
      }
    }
    if (recording_) recording_->drains();
    const bool at_border = run->update_follows && end == plan.commit;
    finish(plan, at_border ? transfers_.awaited_at_border() : transfers_.started());
  } catch (const AgreedError&) {
    give_up(plan);
    throw;
  } catch (...) {
    if (s_.communication.rank == nullptr) {
      give_up(plan);
      throw;
    }
    // Reports the failure before cleaning up, which waits for transfers that end only when the peers abort.
    const Error error = announce_failure(s_.communication.rank, Error::caught());
    give_up(plan);
    throw error;
  }
  if (end == plan.commit && plan.has_crossing()) fetched_of_ = &plan;
  if (recording_) recording_->end_half(end);
  if (range != nullptr) range->has_run = true;
}

/// Whether to launch graphs. Calls between devices must be captured by all ranks of their group or by none,
/// so all segments are captured before the first is launched.
bool Executor::captures(const plan::Plan& plan, StepGraphs::CapturedRange* range, Run* run) {
  if (range == nullptr || !range->has_run) return false;
  if (s_.communication.devices == nullptr || range->captured()) return true;
  bool all = true;
  for (StepGraphs::Segment& segment : range->segments) {
    all = all && graphs_.capture(&segment, [&] {
      for (size_t i = segment.at.begin; i < segment.at.end; ++i) execute(plan, i, run);
    });
  }
  if (host_->agree(all)) return true;
  graphs_.give_up("a device of another rank could not capture a step");
  return false;
}

/// The host waits for these transfers and the last exchange between devices.
void Executor::finish(const plan::Plan& plan, const plan::LaneMarks& transfers) {
  wait_for(plan, transfers);
  transfers_.finish(transfers);
  if (s_.communication.devices != nullptr) s_.communication.devices->wait();
  if (s_.communication.overlap.peers != nullptr) s_.communication.overlap.peers->wait();
}

/// Bookkeeping of live slots and losses does not depend on the device, so it is done once all work is
/// submitted.
void Executor::run_segment(const plan::Plan& plan, StepGraphs::Segment* segment, Run* run) {
  const auto [begin, end] = segment->at;
  wait_for(plan, plan.instructions[begin].waits_for);
  graphs_.run(segment, [&, begin = begin, end = end] {
    for (size_t i = begin; i < end; ++i) execute(plan, i, run);
  });
  for (size_t i = begin; i < end; ++i) {
    slots_->acquire(plan, i);
    conclude(plan, plan.instructions[i], run);
    slots_->release(plan, i, transfers_.done());
  }
}

void Executor::step(const plan::Plan& plan, size_t index, Run* run) {
  const plan::Instruction& n = plan.instructions[index];
  if (n.on_host()) return step_on_host(plan, index);
  if (recording_) recording_->turn(index);
  wait_for(plan, n.waits_for);
  if (recording_) recording_->starts(index);
  slots_->acquire(plan, index);
  if (n.is_transfer()) {
    clear_gaps(plan, index);
    const comm::Work work = transfers_.start(plan, index);
    if (recording_) recording_->issued(index, work);
  } else {
    execute(plan, index, run);
    conclude(plan, n, run);
    const double waited = s_.communication.blocks->take_waited();
    if (recording_) recording_->ended(index, waited);
  }
  slots_->release(plan, index, transfers_.done());
}

/// Both halves begin together, so the first waits for what either needs. An error of one reaches the other
/// ranks before the other half goes on, which may wait for them.
void Executor::step_pair(const plan::Plan& plan, size_t index, Run* run) {
  if (recording_) recording_->turn(index);
  wait_for(plan, plan.instructions[index].waits_for);
  if (recording_) recording_->starts(index);
  for (const size_t i : {index, index + 1}) slots_->acquire(plan, i);
  const auto half = [&](size_t i) {
    return [this, &plan, i, run] {
      try {
        execute(plan, i, run);
      } catch (const AgreedError&) {
        throw;
      } catch (...) {
        throw announce_failure(s_.communication.rank, Error::caught());
      }
    };
  };
  s_.communication.overlap.fibers->run(half(index), half(index + 1));
  const double waited = s_.communication.blocks->take_waited();
  if (recording_) recording_->pair_ended(index, waited);
  for (const size_t i : {index, index + 1}) {
    conclude(plan, plan.instructions[i], run);
    slots_->release(plan, i, transfers_.done());
  }
}

void Executor::wait_for(const plan::Plan& plan, const plan::LaneMarks& transfers) {
  if (transfers_.follow(transfers)) slots_->drain(plan, transfers_.done());
}

void Executor::give_up(const plan::Plan& plan) {
  slots_->release_all(plan, transfers_.done());
  end_transfers();  // the first error counts
  s_.communication.blocks->settle();
  if (s_.communication.devices != nullptr) s_.communication.devices->drain();
  if (s_.communication.overlap.peers != nullptr) s_.communication.overlap.peers->drain();
  slots_->drain(plan, transfers_.done());
}

/// Clears the gaps of gradients whose lifetime begins with the instruction.
void Executor::clear_gaps(const plan::Plan& plan, size_t index) {
  for (const plan::Use& use : plan.instructions[index].uses) {
    const plan::Slot& slot = plan.slot(use.slot);
    const bool window = s_.memory.layout->has_window(slot.block);
    const plan::Role role = window ? plan::Role::kGradientWindow : plan::Role::kGradients;
    if (slot.role != role || slot.persistent || slot.first != static_cast<int32_t>(index)) continue;
    for (const Gap& gap : gaps_[static_cast<size_t>(slot.block)])
      s_.memory.link->zero(s_.memory.arena->data() + slot.offset + gap.begin, gap.bytes);
  }
}

/// The host's part of an instruction, once its device work is submitted.
void Executor::conclude(const plan::Plan& plan, const plan::Instruction& n, Run* run) {
  if (n.op == plan::Op::kLoss || n.op == plan::Op::kEvalLoss)
    host_->note_losses(n.micro_batch, as<float>(plan, n[Operand::kLosses]), run);
}

/// Submits the device's work for an instruction of the compute lane.
void Executor::execute(const plan::Plan& plan, size_t index, Run* run) {
  clear_gaps(plan, index);
  nn::Region workspace;
  submit(plan, plan.instructions[index], context(plan, plan.instructions[index], *run, &workspace), run);
}

void Executor::submit(const plan::Plan& plan, const plan::Instruction& n, const nn::Context& ctx, Run* run) {
  switch (n.op) {
    case Op::kLoadMicroBatch:
      return host_->load(n.micro_batch, at(plan, n[Operand::kBatch]), run);
    case Op::kCountTokens:
      return host_->count_tokens(run);
    case Op::kForward:
    case Op::kRecompute:
      if (n.block == 0) return embedding().forward(ctx, at(plan, n[Operand::kY]));
      return n.op == Op::kForward ? forward_block(plan, n, ctx, *run) : recompute(plan, n, ctx);
    case Op::kObjective:
      return apply_objective(plan, n, run);
    case Op::kLogprobs:
    case Op::kLoss:
    case Op::kEvalLoss:
      return head(plan, n, ctx);
    case Op::kLogits:
      return logits(plan, n, ctx, *run);
    case Op::kRoundDx:
    case Op::kBackward:
    case Op::kBackwardInput:
    case Op::kBackwardWeight:
      if (n.block != 0) return backward_block(plan, n, ctx);
      return embedding().backward(ctx, as<float>(plan, n[Operand::kDx]), lookups(), n.micro_batch);
    case Op::kJoinHeadGrad:
      return join_head_gradient(plan, n, ctx);
    case Op::kAddGrad:
    case Op::kRoundGrad:
    case Op::kRoundHeadGrad:
    case Op::kMomentum:
    case Op::kOrthogonalise:
    case Op::kOptimizerStep:
    case Op::kBalance:
    case Op::kReshard:
      return change_state(plan, n);
    case Op::kGradNorm:
      return n.block >= 0 ? add_squares(plan, n) : host_->agree_on_norm(run);
    case Op::kReduceTp:
    case Op::kReduceKv:
    case Op::kReduceGrad:
    case Op::kReduceReplicas:
    case Op::kGatherGrad:
    case Op::kGatherMatrix:
    case Op::kScatterMatrix:
    case Op::kUnshard:
    case Op::kSendF:
    case Op::kRecvF:
    case Op::kSendB:
    case Op::kRecvB:
    case Op::kSendTableGrad:
    case Op::kRecvTableGrad:
    case Op::kSendTable:
    case Op::kRecvTable:
    case Op::kOffload:
    case Op::kFetch:
    case Op::kCount:
      HWS_CHECK(!"a transfer does not run on the compute lane");
  }
}

/// The inputs of a module's call.
nn::Context Executor::context(const plan::Plan& plan, const plan::Instruction& n, const Run& run,
                              nn::Region* workspace) {
  nn::Context ctx;
  *workspace = region(plan, n.scratch);
  for (const plan::Use& use : n.uses) point_groups(plan, use.slot);
  ctx.kernels = kernels_;
  ctx.stream = stream_;
  ctx.workspace = workspace;
  const bool cached = run.cached >= 0;  // generation divides neither rows nor columns
  const parallel::BlockExchanges& blocks = *s_.communication.blocks;
  ctx.exchange = cached ? &blocks.cached_exchange() : &blocks.exchange();
  ctx.columns = cached ? &nn::kAllColumns : &blocks.columns();
  ctx.experts = &blocks.experts();
  ctx.expert_call = s_.communication.expert_calls.number(n);
  const nn::LocalColumns& own = ctx.columns->own();
  ctx.batch = run.batch;
  const int64_t seq = host_->columns(n.micro_batch, run);
  ctx.seq = own.count(seq);
  ctx.type = s_.model.type, ctx.residual_type = s_.model.residual_type;
  ctx.fp8 = s_.model.fp8;
  ctx.fp8.maxima = host_->fp8_maxima().earlier();
  if (run.training && n.op != Op::kRecompute) ctx.fp8.noted = host_->fp8_maxima().recorded();
  ctx.lookup_type = s_.memory.layout->options().state;
  ctx.groups = pointers_.data();
  ctx.accumulate = n.accumulate;
  ctx.training = run.training;
  ctx.step_rows = run.step_rows;
  ctx.remakes = s_.model.remakes;
  if (!cached) ctx.compress = s_.model.compress;
  if (run.training && (n.op == Op::kForward || n.op == Op::kLoss)) ctx.tallies = tallies_of(host_->sums());
  if (run.training && n.op == Op::kForward) ctx.head_scores = host_->head_scores().noted();
  if (run.training) ctx.loss_scale = &host_->scalars()->loss_scale;
  ctx.seed = s_.model.seed;
  const plan::SlotId slot = n[Operand::kBatch];
  if (slot < 0) return ctx;
  const int64_t top = run.training ? s_.model.teacher.top : 0;
  const int64_t depths = run.training ? s_.model.modules->config().ahead : 0;
  const MicroBatch batch = MicroBatch::in_slot(at(plan, slot), run.batch, seq, {own, top, depths});
  ctx.tokens_BT = batch.tokens;
  ctx.targets_BT = batch.targets;
  ctx.weights_BT = run.weights && n.op != plan::Op::kLogprobs ? batch.weights : nullptr;
  if (top > 0) {
    ctx.teacher = s_.model.teacher;
    ctx.teacher.ids = batch.teacher.ids, ctx.teacher.logprobs = batch.teacher.logprobs;
  }
  if (n.op == Op::kLoss && depths > 0)
    ctx.ahead = {depths,
                 batch.ahead.tokens,
                 batch.ahead.targets,
                 run.weights ? batch.ahead.weights : nullptr,
                 host_->scalars()->ahead_scales,
                 &host_->scalars()->ahead_share,
                 rope_of(n)};
  ctx.positions_BT = batch.positions;
  ctx.kv_begin_BT = run.documents ? batch.kv_begin : nullptr;
  ctx.row_begins = run.documents ? batch.row_begins : nullptr;
  ctx.documents = run.documents ? host_->documents(n.micro_batch) : 0;
  ctx.samples_B = batch.samples;
  return ctx;
}

/// Instructions on gradients, masters, moments and weights, without modules.
void Executor::change_state(const plan::Plan& plan, const plan::Instruction& n) {
  if (n.op == Op::kReshard) return s_.communication.runtime->keep_secondary(plan, n);
  if (n.op == Op::kAddGrad) return add_gradients(plan, n);
  if (n.op == Op::kRoundGrad || n.op == Op::kRoundHeadGrad) return round_gradients(plan, n);
  if (n.op == Op::kMomentum) return add_momentum(plan, n);
  if (n.op == Op::kOrthogonalise) return orthogonalise(plan, n);
  if (n.op == Op::kOptimizerStep) optimizer_step(plan, n);
  balance(plan, n);
}

void Executor::add_gradients(const plan::Plan& plan, const plan::Instruction& n) {
  float* const to = as<float>(plan, n[Operand::kGradients]);
  const int64_t count = plan.slot(n[Operand::kGradients]).bytes / 4;
  kernels_->add({to, to, as<float>(plan, n[Operand::kAddend]), count}, *stream_);
}

/// Weights, masters and moments are where the instruction says; between steps they may be outside the arena.
/// If the host's processor updates them, the weights go to their own slot, on their way to the device.
void Executor::optimizer_step(const plan::Plan& plan, const plan::Instruction& n) {
  const plan::SlotId slot = n[Operand::kWeights];
  const bool in_place = slot >= 0 && plan.slot(slot).role != plan::Role::kHostWeights;
  const kernels::KernelTable& kernels = n.on_host() ? *s_.host.kernels : *kernels_;
  Stream& stream = n.on_host() ? *s_.host.stream : *stream_;
  const kernels::OptimizerScalars* const scalars =
      &(n.on_host() ? host_->host_scalars() : host_->scalars())->optimizer;
  update_matrices(plan, n);
  for (const int32_t g : s_.memory.layout->groups_of(n.block)) {
    const parallel::GroupLayout& group = s_.memory.layout->group(g);
    if (!group.trainable) continue;
    const auto here = [&](Operand operand, int64_t offset) {
      return n[operand] < 0 ? nullptr : at(plan, n[operand]) + offset;
    };
    char* const weights = in_place          ? here(Operand::kWeights, own_weights(g))
                          : group.narrows() ? here(Operand::kWeights, group.host_weights)
                                            : nullptr;
    char* const master = group.has_master ? here(Operand::kMaster, group.master) : nullptr;
    void* const gradients = here(Operand::kGradients, reduced(plan, n[Operand::kGradients], g));
    const bool records = is_int_block(group.type);  // encoded once a step, for all gathers
    optim::OptimizerRun run{group.state.begin, group.state.end, master ? master : weights,
                            master && !records ? weights : nullptr, gradients};
    run.copy_type = group.type;
    for (size_t s = 0; s < plan::kStateCount; ++s)
      run.states[s] = here(plan::kStates[s].operand, group.states[s].at);
    s_.optimizer->step(g, run, scalars, host_->head_scores().noted(), kernels, stream);
    if (records && group.state.size() > 0)
      kernels.block_encode({weights, group.type, master, DType::kF32, group.state.size()}, stream);
  }
}

/// Gives the routers of a block this rank's weights, whole or a shard, to move their balance biases.
void Executor::balance(const plan::Plan& plan, const plan::Instruction& n) {
  char* const slot = at(plan, n[Operand::kWeights]);
  for (const nn::Balance* const balance : s_.model.modules->balances(n.block)) {
    if (!balance->bias()) continue;
    const int32_t g = balance->bias().group;
    const parallel::GroupLayout& group = s_.memory.layout->group(g);
    nn::GroupRange weights{reinterpret_cast<float*>(slot + own_weights(g)), group.state.begin,
                           group.state.end};
    if (!s_.memory.layout->weights_sharded())
      weights = {reinterpret_cast<float*>(slot + group.weights), 0, std::numeric_limits<int64_t>::max()};
    balance->move_bias(weights, tallies_of(host_->sums()), *kernels_, *stream_);
  }
}

/// Rounds the f32 gradients that a backward pass left in its window and adds them to the stored ones. For a
/// table shared with the head, the head's part comes first and the look-ups' second.
void Executor::round_gradients(const plan::Plan& plan, const plan::Instruction& n) {
  const nn::ParameterTable& table = s_.model.modules->table();
  const nn::Parameter& tokens = table.all().front();
  for (const int32_t g : s_.memory.layout->groups_of(n.block)) {
    const parallel::GroupLayout& group = s_.memory.layout->group(g);
    if (!group.trainable) continue;
    const bool shared = n.block == 0 && s_.model.modules->trains_shared_table() && g == tokens.group;
    const int64_t tied = shared ? tokens.offset + tokens.room : 0;
    const auto round = [&](int64_t begin, int64_t end, bool accumulate) {
      if (begin == end) return;
      char* const to =
          at(plan, n[Operand::kGradients]) + group.gradients + begin * dtype_bytes(group.state_type);
      const char* const from = at(plan, n[Operand::kWindow]) + group.gradient_window + begin * 4;
      kernels_->convert({to, from, group.state_type, DType::kF32, end - begin, accumulate}, *stream_);
    };
    const bool head = n.op == plan::Op::kRoundHeadGrad;
    round(0, tied, n.accumulate || !head);
    if (!head) round(tied, group.elements, n.accumulate);
  }
}

}  // namespace hawser::train
