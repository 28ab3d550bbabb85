#include "engine/train/step/executor.h"

#include <algorithm>
#include <utility>

#include "engine/base/error.h"

namespace hawser::train {
namespace {

/// Calls fn once for each slot that `instruction` names.
template <typename Fn>
void for_each_slot(const plan::Instruction& n, Fn fn) {
  const auto in = [](const std::vector<plan::SlotId>& ids, plan::SlotId id) {
    return std::find(ids.begin(), ids.end(), id) != ids.end();
  };
  for (plan::SlotId id : n.reads) fn(id);
  for (plan::SlotId id : n.writes)
    if (!in(n.reads, id)) fn(id);
  for (plan::SlotId id : n.holds)
    if (!in(n.reads, id) && !in(n.writes, id)) fn(id);
  if (n.scratch >= 0) fn(n.scratch);
}

}  // namespace

char* Executor::at(const plan::Plan& plan, plan::SlotId slot) const {
  return slot < 0 ? nullptr : s_.arena->data() + plan.slot(slot).offset;
}

/// Bytes that an earlier slot still drains may go to a transfer behind the one that uses them: they are live
/// again.
void Executor::acquire(const plan::Plan& plan, const plan::Slot& slot) {
  std::erase_if(draining_, [&](plan::SlotId id) {
    const plan::Slot& old = plan.slot(id);
    return old.offset < slot.offset + slot.bytes && slot.offset < old.offset + old.bytes;
  });
  if (s_.link->in_place()) device::unpoison(s_.arena->data() + slot.offset, slot.bytes);
  live_[static_cast<size_t>(slot.category)] += slot.bytes;
  live_bytes_ += slot.bytes;
  high_water_ = std::max(high_water_, slot.offset + slot.bytes);
  if (live_bytes_ > most_live_) most_live_ = live_bytes_, live_at_peak_ = live_;
}

/// Of gradients that begin to live with the instruction.
void Executor::clear_gaps(const plan::Plan& plan, size_t index) {
  const bool rounds = s_.layout->rounds_gradients();
  const plan::Role role = rounds ? plan::Role::kGradientWindow : plan::Role::kGradients;
  for_each_slot(plan.instructions[index], [&](plan::SlotId id) {
    const plan::Slot& slot = plan.slot(id);
    if (slot.role != role || slot.persistent || slot.first != static_cast<int32_t>(index)) return;
    for (const Gap& gap : gaps_[static_cast<size_t>(slot.block)])
      s_.link->zero(s_.arena->data() + slot.offset + gap.begin, gap.bytes);
  });
}

/// The bytes stay usable until the last transfer that uses them is done.
void Executor::release(const plan::Plan& plan, plan::SlotId id) {
  const plan::Slot& slot = plan.slot(id);
  live_[static_cast<size_t>(slot.category)] -= slot.bytes;
  live_bytes_ -= slot.bytes;
  if (slot.last_transfer > done_)
    draining_.push_back(id);
  else
    close(slot);
}

/// Elsewhere than on the host, what was given to the device may still have to run.
void Executor::close(const plan::Slot& slot) {
  if (s_.link->in_place()) device::poison(s_.arena->data() + slot.offset, slot.bytes);
}

void Executor::wait_for(const plan::Plan& plan, int32_t transfer) {
  if (transfer <= done_) return;
  s_.runtime->follow(works_[static_cast<size_t>(transfer)]);
  done_ = transfer;
  std::erase_if(draining_, [&](plan::SlotId id) {
    const plan::Slot& slot = plan.slot(id);
    if (slot.last_transfer > done_) return false;
    close(slot);
    return true;
  });
}

/// Also for the host, which learns of failures here at the latest.
void Executor::finish_transfers(const plan::Plan& plan) {
  wait_for(plan, started_);
  if (s_.runtime) s_.runtime->wait(newest_);
}

void Executor::acquire_slots(const plan::Plan& plan, size_t index) {
  const auto now = static_cast<int32_t>(index);
  for_each_slot(plan.instructions[index], [&](plan::SlotId id) {
    if (!plan.slot(id).persistent && plan.slot(id).first == now) acquire(plan, plan.slot(id));
  });
  acquired_ = now;
}

void Executor::release_slots(const plan::Plan& plan, size_t index) {
  const auto now = static_cast<int32_t>(index);
  for_each_slot(plan.instructions[index], [&](plan::SlotId id) {
    if (!plan.slot(id).persistent && plan.slot(id).last == now) release(plan, id);
  });
  released_ = now;
}

/// From the second run of the same shape on, segments go to the device as they were captured.
void Executor::run(const plan::Plan& plan, size_t begin, size_t end, Run* run) {
  works_.resize(std::max(works_.size(), plan.instructions.size()));
  draining_.reserve(plan.slots.size());
  fetched_losses_.reserve(plan.instructions.size());
  fetched_losses_.clear();
  documents_.resize(std::max(documents_.size(), plan.instructions.size()));
  done_ = started_ = acquired_ = released_ = static_cast<int32_t>(begin) - 1;
  newest_ = {};
  recording_ = trace_ && trace_->is_of(plan) ? trace_ : nullptr;
  KernelProfile* const profile = recording_ ? recording_->profile() : nullptr;
  device::Device& device = s_.link->device();
  kernels_ = profile ? &profile->table() : &device.kernels();
  stream_ = profile ? &profile->stream() : &device.stream(device::StreamId::kCompute);
  if (recording_) recording_->begin_half(begin);
  // What kernels are passed by value must be the same next time: documents and positions in a cache are not.
  const bool fixed = !run->documents && run->cached < 0 && recording_ == nullptr;
  StepGraphs::Part* const part =
      fixed ? graphs_.part(plan, begin, end, {run->batch, run->seq, run->training}) : nullptr;
  const bool captures = part != nullptr && part->has_run;
  auto segment = captures ? part->segments.begin() : decltype(part->segments.begin()){};
  // A failing instruction must not leave slots live or transfers in flight.
  try {
    for (size_t i = begin; i < end;) {
      if (captures && segment != part->segments.end() && segment->at.begin == i) {
        run_segment(plan, &*segment, run);
        i = segment++->at.end;
      } else {
        step(plan, i++, run);
      }
    }
  } catch (...) {
    give_up(plan);
    throw;
  }
  if (recording_) recording_->drains();
  finish_transfers(plan);
  if (recording_) recording_->end_half(end);
  if (part != nullptr) part->has_run = true;
}

/// What is live and where losses will be does not depend on the device: it is noted when all is given.
void Executor::run_segment(const plan::Plan& plan, StepGraphs::Segment* segment, Run* run) {
  const auto [begin, end] = segment->at;
  wait_for(plan, plan.instructions[begin].waits_for);
  graphs_.run(segment, [&, begin = begin, end = end] {
    for (size_t i = begin; i < end; ++i) compute(plan, i, run);
  });
  for (size_t i = begin; i < end; ++i) {
    acquire_slots(plan, i);
    conclude(plan, plan.instructions[i], run);
    release_slots(plan, i);
  }
}

void Executor::step(const plan::Plan& plan, size_t index, Run* run) {
  const plan::Instruction& n = plan.instructions[index];
  if (recording_) recording_->turn(index);
  wait_for(plan, n.waits_for);
  if (recording_) recording_->starts(index);
  acquire_slots(plan, index);
  if (n.stream == plan::StreamId::kCommunication) {
    clear_gaps(plan, index);
    newest_ = works_[index] = s_.runtime->start(plan, index);
    started_ = static_cast<int32_t>(index);
    if (recording_) recording_->issued(index, works_[index]);
  } else {
    compute(plan, index, run);
    conclude(plan, n, run);
    if (recording_) recording_->ended(index);
  }
  release_slots(plan, index);
}

void Executor::give_up(const plan::Plan& plan) {
  for (size_t id = 0; id < plan.slots.size(); ++id) {
    const plan::Slot& slot = plan.slots[id];
    if (!slot.persistent && slot.first <= acquired_ && slot.last > released_)
      release(plan, static_cast<plan::SlotId>(id));
  }
  try {
    finish_transfers(plan);
  } catch (...) {  // the transfers are over either way, and what failed first is what counts
    done_ = started_;
    for (plan::SlotId id : draining_) close(plan.slot(id));
    draining_.clear();
  }
}

/// All that the device is given for an instruction of the compute stream.
void Executor::compute(const plan::Plan& plan, size_t index, Run* run) {
  clear_gaps(plan, index);
  execute(plan, plan.instructions[index], run);
}

/// All that the host has to do with it then.
void Executor::conclude(const plan::Plan& plan, const plan::Instruction& n, Run* run) {
  const bool training = n.op == plan::Op::kLoss;
  if (!training && n.op != plan::Op::kEvalLoss) return;
  const float* const losses = s_.staging.losses(n.micro_batch, as<float>(plan, n.writes[0]));
  fetched_losses_.push_back({losses, run->batch * run->seq});
  // In training GRAD_NORM sums them, so that the host need not wait here; in place they would be gone by
  // then.
  if (!training || s_.link->in_place()) sum_losses(training ? &host_sums_->losses : &run->losses);
}

void Executor::execute(const plan::Plan& plan, const plan::Instruction& n, Run* run) {
  using plan::Op;
  nn::Region workspace;
  const nn::Context ctx = context(plan, n, *run, &workspace);
  switch (n.op) {
    case Op::kLoadMicroBatch:
      return load(plan, n, run);
    case Op::kCountTokens:
      return count_tokens(run);
    case Op::kForward:
      return forward(plan, n, ctx, *run);
    case Op::kLoss:
    case Op::kEvalLoss:
      return loss(plan, n, ctx);
    case Op::kLogits:
      return logits(plan, n, ctx, *run);
    case Op::kBackward:
      return backward(plan, n, ctx);
    case Op::kJoinHeadGrad:
      return s_.model->embedding().join(ctx, lookup_gradient_, n.micro_batch);
    case Op::kAddGrad: {
      float* const to = as<float>(plan, n.writes[0]);
      return kernels_->add({to, to, as<float>(plan, n.reads[0]), plan.slot(n.writes[0]).bytes / 4}, *stream_);
    }
    case Op::kRoundGrad:
    case Op::kRoundHeadGrad:
      return round_gradients(plan, n);
    case Op::kReshard:
      return s_.runtime->keep_secondary(plan, n);
    case Op::kGradNorm:
      return grad_norm(plan, n, run);
    case Op::kOptimizerStep:
      return optimizer_step(plan, n);
    case Op::kReduceGrad:
    case Op::kReduceReplicas:
    case Op::kGatherGrad:
    case Op::kUnshard:
      HWS_CHECK(!"a transfer is on the communication stream");
  }
}

/// The call's inputs. The micro-batch is the first operand of category staging.
nn::Context Executor::context(const plan::Plan& plan, const plan::Instruction& n, const Run& run,
                              nn::Region* workspace) {
  nn::Context ctx;
  if (n.scratch >= 0) *workspace = nn::Region(at(plan, n.scratch), plan.slot(n.scratch).bytes);
  for (plan::SlotId id : n.reads) point_groups(plan, id);
  for (plan::SlotId id : n.writes) point_groups(plan, id);
  ctx.kernels = kernels_;
  ctx.stream = stream_;
  ctx.workspace = workspace;
  ctx.batch = run.batch;
  ctx.seq = run.seq;
  ctx.type = s_.type;
  ctx.lookup_type = s_.layout->options().state;
  ctx.groups = pointers_.data();
  ctx.accumulate = n.accumulate;
  ctx.training = run.training;
  ctx.seed = s_.seed;
  for (plan::SlotId id : n.reads) {
    if (plan.slot(id).category != plan::Category::kStaging) continue;
    const MicroBatch batch = MicroBatch::in_slot(at(plan, id), run.batch, run.seq);
    ctx.tokens_BT = batch.tokens;
    ctx.targets_BT = batch.targets;
    ctx.positions_BT = batch.positions;
    ctx.kv_begin_BT = run.documents ? batch.kv_begin : nullptr;
    ctx.documents = run.documents ? documents_[static_cast<size_t>(std::max(n.micro_batch, 0))] : 0;
    ctx.samples_B = batch.samples;
    break;
  }
  return ctx;
}

void Executor::forward(const plan::Plan& plan, const plan::Instruction& n, const nn::Context& ctx,
                       const Run& run) {
  if (n.block == 0) return s_.model->embedding().forward(ctx, as<float>(plan, n.writes[0]));
  const nn::Block& block = s_.model->block(n.block - 1);
  const int64_t bytes = plan.slot(n.writes[1]).bytes;
  if (run.cached >= 0) {
    char* const cache = at(plan, n.writes[1]);
    return block.forward_cached(ctx, {cache, cache + bytes / 2, run.cached}, rope_table_,
                                as<float>(plan, n.writes[0]));
  }
  nn::Region saved(at(plan, n.writes[1]), bytes);
  block.forward(ctx, saved, rope_table_, as<float>(plan, n.writes[0]), as<float>(plan, n.reads[0]));
}

void Executor::backward(const plan::Plan& plan, const plan::Instruction& n, const nn::Context& ctx) {
  float* const dx = as<float>(plan, n.writes[0]);
  if (n.block == 0)
    return s_.model->embedding().backward(ctx, dx, looks_up() ? &lookup_gradient_ : nullptr, n.micro_batch);
  nn::Region saved(at(plan, n.reads[1]), plan.slot(n.reads[1]).bytes);
  s_.model->block(n.block - 1).backward(ctx, saved, rope_table_, dx, as<float>(plan, n.reads[0]));
}

void Executor::head(const plan::Plan& plan, const plan::Instruction& n, const nn::Context& ctx) {
  const nn::LmHeadLoss& head = s_.model->head();
  const float* const x = as<float>(plan, n.reads[0]);
  float* const losses = as<float>(plan, n.writes[0]);
  if (n.op == plan::Op::kEvalLoss) return head.forward(ctx, losses, x);
  head.forward_backward(ctx, losses, as<float>(plan, n.writes[1]), x, &scalars_->grad_scale);
}

void Executor::loss(const plan::Plan& plan, const plan::Instruction& n, const nn::Context& ctx) {
  head(plan, n, ctx);
  float* const losses = as<float>(plan, n.writes[0]);
  s_.link->fetch(s_.staging.losses(n.micro_batch, losses), losses,
                 ctx.rows() * static_cast<int64_t>(sizeof(float)));
}

/// To the caller's memory, chunk by chunk: of every row, or in generation of the last one.
void Executor::logits(const plan::Plan& plan, const plan::Instruction& n, const nn::Context& ctx,
                      const Run& run) {
  if (run.logits == nullptr) return;  // a rank that only helps others with its weights
  const int64_t first = run.cached >= 0 ? ctx.rows() - 1 : 0;
  const nn::LmHeadLoss& head = s_.model->head();
  const int64_t width = s_.model->config().width, vocab = s_.model->config().vocab_size;
  for (int64_t row = first; row < ctx.rows(); row += head.chunk_rows(ctx)) {
    const nn::RegionScope scope(*ctx.workspace);
    const int64_t rows = std::min(head.chunk_rows(ctx), ctx.rows() - row);
    float* const host = run.logits + (row - first) * vocab;
    float* const out = s_.link->in_place() ? host : head.take_logits(ctx, ctx.rows() - first);
    head.logits(ctx, out, as<float>(plan, n.reads[0]) + row * width, rows);
    s_.link->fetch(host, out, rows * vocab * static_cast<int64_t>(sizeof(float)));
  }
  s_.link->wait();
}

void Executor::optimizer_step(const plan::Plan& plan, const plan::Instruction& n) {
  for (const int32_t g : s_.layout->groups_of(n.block)) {
    if (!s_.layout->group(g).trainable) continue;
    const GroupState& s = state(g);
    s_.optimizer->step(g,
                       {s.range.begin, s.range.end, s.weights.data, s.copy, reduced(plan, n.reads[0], g).data,
                        s.moment1.data, s.moment2.data},
                       &scalars_->optimizer, *kernels_, *stream_);
  }
}

/// What a backward left in its window joins what is kept. Of a table that the head shares it left the head's
/// part first, and then the look-ups'.
void Executor::round_gradients(const plan::Plan& plan, const plan::Instruction& n) {
  const nn::ParameterTable& table = s_.model->table();
  const nn::Parameter& tokens = table.all().front();
  for (const int32_t g : s_.layout->groups_of(n.block)) {
    const parallel::GroupLayout& group = s_.layout->group(g);
    if (!group.trainable) continue;
    const bool shared = n.block == 0 && s_.model->trains_tied_head() && g == tokens.group;
    const int64_t tied = shared ? tokens.offset + tokens.size : 0;
    const auto round = [&](int64_t begin, int64_t end, bool accumulate) {
      if (begin == end) return;
      char* const to = at(plan, n.writes[0]) + group.gradients + begin * dtype_bytes(group.state_type);
      const char* const from = at(plan, n.reads[0]) + group.gradient_window + begin * 4;
      kernels_->convert({to, from, group.state_type, DType::kF32, end - begin, accumulate}, *stream_);
    };
    const bool head = n.op == plan::Op::kRoundHeadGrad;
    round(0, tied, n.accumulate || !head);
    if (!head) round(tied, group.elements, n.accumulate);
  }
}

}  // namespace hawser::train
