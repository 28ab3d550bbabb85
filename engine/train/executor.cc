#include "engine/train/executor.h"

#include <algorithm>

#include "engine/base/error.h"
#include "engine/optim/grad_norm.h"

namespace hawser::train {
namespace {

int64_t aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

/// Calls fn once for each slot that `instruction` names.
template <typename Fn>
void for_each_slot(const plan::Instruction& instruction, Fn fn) {
  for (plan::SlotId id : instruction.reads) fn(id);
  for (plan::SlotId id : instruction.writes)
    if (std::find(instruction.reads.begin(), instruction.reads.end(), id) == instruction.reads.end()) fn(id);
  if (instruction.scratch >= 0) fn(instruction.scratch);
}

}  // namespace

int64_t MicroBatch::bytes(int64_t batch, int64_t seq) {
  return 4 * aligned(batch * seq * 4) + aligned(batch * 8);
}

MicroBatch MicroBatch::in_slot(char* slot, int64_t batch, int64_t seq) {
  const int64_t array = aligned(batch * seq * 4);
  const auto ints = [&](int64_t i) { return reinterpret_cast<int32_t*>(slot + i * array); };
  return {batch, seq, ints(0), ints(1), ints(2), ints(3), reinterpret_cast<uint64_t*>(slot + 4 * array)};
}

Executor::Executor(Setup setup, const plan::Plan& plan) : s_(std::move(setup)) {
  const auto slot = [&](const char* name) { return at(plan, plan::find_slot(plan, name)); };
  state_.weights = slot("weights");
  state_.master = reinterpret_cast<float*>(s_.type == DType::kF32 ? state_.weights : slot("master"));
  state_.gradients = reinterpret_cast<float*>(slot("gradients"));
  state_.head_gradient = reinterpret_cast<float*>(slot("head_gradient"));
  state_.moment1 = reinterpret_cast<float*>(slot("moment1"));
  state_.moment2 = reinterpret_cast<float*>(slot("moment2"));
  state_.rope_table = reinterpret_cast<float*>(slot("rope_table"));
  state_.scalars = reinterpret_cast<StepScalars*>(slot("scalars"));
  state_.partials = reinterpret_cast<double*>(slot("partials"));
  for (const plan::Slot& s : plan.slots)
    if (s.persistent) acquire(s);
  device::poison(s_.arena->data() + plan.persistent_bytes, s_.arena->bytes() - plan.persistent_bytes);
}

char* Executor::at(const plan::Plan& plan, plan::SlotId slot) const {
  return slot < 0 ? nullptr : s_.arena->data() + plan.slots[static_cast<size_t>(slot)].offset;
}

void Executor::acquire(const plan::Slot& slot) {
  device::unpoison(s_.arena->data() + slot.offset, slot.bytes);
  live_[static_cast<size_t>(slot.category)] += slot.bytes;
  live_bytes_ += slot.bytes;
  high_water_ = std::max(high_water_, slot.offset + slot.bytes);
  if (live_bytes_ > most_live_) most_live_ = live_bytes_, live_at_peak_ = live_;
}

void Executor::release(const plan::Slot& slot) {
  device::poison(s_.arena->data() + slot.offset, slot.bytes);
  live_[static_cast<size_t>(slot.category)] -= slot.bytes;
  live_bytes_ -= slot.bytes;
}

void Executor::run(const plan::Plan& plan, size_t begin, size_t end, Run* run) {
  for (size_t i = begin; i < end; ++i) {
    const plan::Instruction& instruction = plan.instructions[i];
    const auto step = static_cast<int32_t>(i);
    for_each_slot(instruction, [&](plan::SlotId id) {
      const plan::Slot& slot = plan.slots[static_cast<size_t>(id)];
      if (!slot.persistent && slot.first == step) acquire(slot);
    });
    // A failing instruction (bad data) must not leave slots live: they are released at its end either way.
    try {
      execute(plan, instruction, run);
    } catch (...) {
      for (const plan::Slot& slot : plan.slots)
        if (!slot.persistent && slot.first <= step && step <= slot.last) release(slot);
      throw;
    }
    for_each_slot(instruction, [&](plan::SlotId id) {
      const plan::Slot& slot = plan.slots[static_cast<size_t>(id)];
      if (!slot.persistent && slot.last == step) release(slot);
    });
  }
}

void Executor::execute(const plan::Plan& plan, const plan::Instruction& n, Run* run) {
  using plan::Op;
  nn::Region workspace;
  const nn::Context ctx = context(plan, n, *run, &workspace);
  switch (n.op) {
    case Op::kLoadMicroBatch:
      return run->source->load(n.micro_batch,
                               MicroBatch::in_slot(at(plan, n.writes[0]), run->batch, run->seq));
    case Op::kCountTokens:
      return count_tokens(plan, n, run);
    case Op::kForward:
      return forward(plan, n, ctx, *run);
    case Op::kLoss:
    case Op::kEvalLoss:
      return loss(plan, n, ctx, run);
    case Op::kLogits:
      return logits(plan, n, ctx, *run);
    case Op::kBackward:
      return backward(plan, n, ctx);
    case Op::kReduceGrad: {
      const nn::Parameter& embedding = s_.model->table().all().front();
      float* const gradient = state_.gradients + embedding.offset;
      return s_.kernels->add({gradient, gradient, state_.head_gradient, embedding.size}, *s_.stream);
    }
    case Op::kGradNorm:
      run->grad_norm =
          optim::grad_norm(s_.model->table(), state_.gradients, state_.partials, *s_.kernels, *s_.stream);
      return;
    case Op::kOptimizerStep:
      return s_.optimizer->step({state_.master, s_.type == DType::kF32 ? nullptr : state_.weights,
                                 state_.gradients, state_.moment1, state_.moment2},
                                &state_.scalars->optimizer, *s_.kernels, *s_.stream);
  }
}

/// The call's inputs. The micro-batch is the first operand of category staging.
nn::Context Executor::context(const plan::Plan& plan, const plan::Instruction& n, const Run& run,
                              nn::Region* workspace) {
  nn::Context ctx;
  if (n.scratch >= 0) {
    const plan::Slot& slot = plan.slots[static_cast<size_t>(n.scratch)];
    *workspace = nn::Region(s_.arena->data() + slot.offset, slot.bytes);
  }
  ctx.kernels = s_.kernels;
  ctx.stream = s_.stream;
  ctx.workspace = workspace;
  ctx.batch = run.batch;
  ctx.seq = run.seq;
  ctx.type = s_.type;
  ctx.weights = state_.weights;
  ctx.master = state_.master;
  ctx.gradients = state_.gradients;
  ctx.accumulate = n.micro_batch > 0;
  ctx.training = run.training;
  ctx.seed = s_.seed;
  for (plan::SlotId id : n.reads) {
    if (plan.slots[static_cast<size_t>(id)].category != plan::Category::kStaging) continue;
    const MicroBatch batch = MicroBatch::in_slot(at(plan, id), run.batch, run.seq);
    ctx.tokens_BT = batch.tokens;
    ctx.targets_BT = batch.targets;
    ctx.positions_BT = batch.positions;
    ctx.kv_begin_BT = run.documents ? batch.kv_begin : nullptr;
    ctx.samples_B = batch.samples;
    break;
  }
  return ctx;
}

void Executor::count_tokens(const plan::Plan& plan, const plan::Instruction& n, Run* run) {
  run->tokens = 0;
  for (plan::SlotId id : n.reads) {
    const MicroBatch batch = MicroBatch::in_slot(at(plan, id), run->batch, run->seq);
    run->tokens += std::count_if(batch.targets, batch.targets + run->batch * run->seq,
                                 [](int32_t t) { return t != -100; });
  }
  if (run->tokens == 0)
    fail(Code::kDataInvalid,
         "every target of the global batch is masked (-100): there is nothing to learn from");
  state_.scalars->grad_scale = static_cast<float>(1.0 / static_cast<double>(run->tokens));
}

void Executor::forward(const plan::Plan& plan, const plan::Instruction& n, const nn::Context& ctx,
                       const Run& run) {
  if (n.block == 0) return s_.model->embedding().forward(ctx, as<float>(plan, n.writes[0]));
  const nn::Block& block = s_.model->block(n.block - 1);
  if (run.cached >= 0) {
    const int64_t half = plan.slots[static_cast<size_t>(n.writes[1])].bytes / 2;
    char* const cache = at(plan, n.writes[1]);
    return block.forward_cached(ctx, {cache, cache + half, run.cached}, state_.rope_table,
                                as<float>(plan, n.writes[0]));
  }
  nn::Region saved(at(plan, n.writes[1]), plan.slots[static_cast<size_t>(n.writes[1])].bytes);
  block.forward(ctx, saved, state_.rope_table, as<float>(plan, n.writes[0]), as<float>(plan, n.reads[0]));
}

void Executor::backward(const plan::Plan& plan, const plan::Instruction& n, const nn::Context& ctx) {
  float* const dx = as<float>(plan, n.writes[0]);
  if (n.block == 0) return s_.model->embedding().backward(ctx, dx);
  nn::Region saved(at(plan, n.reads[1]), plan.slots[static_cast<size_t>(n.reads[1])].bytes);
  s_.model->block(n.block - 1).backward(ctx, saved, state_.rope_table, dx, as<float>(plan, n.reads[0]));
}

void Executor::loss(const plan::Plan& plan, const plan::Instruction& n, const nn::Context& ctx, Run* run) {
  const float* const x = as<float>(plan, n.reads[0]);
  float* const losses = as<float>(plan, n.writes[0]);
  if (n.op == plan::Op::kLoss) {
    s_.model->head().forward_backward(ctx, losses, as<float>(plan, n.writes[1]), state_.head_gradient, x,
                                      &state_.scalars->grad_scale);
  } else {
    s_.model->head().forward(ctx, losses, x);
    run->tokens +=
        std::count_if(ctx.targets_BT, ctx.targets_BT + ctx.rows(), [](int32_t t) { return t != -100; });
  }
  double sum = 0;
  for (int64_t i = 0; i < ctx.rows(); ++i) sum += static_cast<double>(losses[i]);
  run->loss_sum += sum;
}

/// To the caller's memory: of every row, or in generation of the last one.
void Executor::logits(const plan::Plan& plan, const plan::Instruction& n, const nn::Context& ctx,
                      const Run& run) {
  const int64_t first = run.cached >= 0 ? ctx.rows() - 1 : 0;
  const float* const x = as<float>(plan, n.reads[0]) + first * s_.model->config().width;
  s_.model->head().logits(ctx, run.logits, x, ctx.rows() - first);
}

}  // namespace hawser::train
