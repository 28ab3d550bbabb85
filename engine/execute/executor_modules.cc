// Module calls: what the executor does for instructions of blocks and the head.
#include <algorithm>

#include "engine/execute/executor.h"

namespace hawser::train {

using plan::Operand;

void Executor::forward_block(const plan::Plan& plan, const plan::Instruction& n, const nn::Context& ctx,
                             const Run& run) {
  void* const y = at(plan, n[Operand::kY]);
  const nn::Block& block = s_.model.modules->block(n.block - 1);
  if (const plan::SlotId id = n[Operand::kCache]; id >= 0) {
    char* const cache = at(plan, id);
    return block.forward_cached(ctx, {cache, plan.slot(id).bytes, run.cached}, rope_of(n), y);
  }
  nn::BlockRegions regions = regions_of(plan, n);
  block.forward(ctx, regions, rope_of(n), y, stream_of(plan, n, ctx), at(plan, n[Operand::kBranchOut]));
}

nn::StreamInput Executor::stream_of(const plan::Plan& plan, const plan::Instruction& n,
                                    const nn::Context& ctx) const {
  void* const x = at(plan, n[Operand::kX]);
  if (n[Operand::kBranch] < 0) return x;
  const nn::Block& below = s_.model.modules->block(n.block - 2);
  return below.last_sum(ctx, x, at(plan, n[Operand::kMiddle]), at(plan, n[Operand::kBranch]));
}

void Executor::recompute(const plan::Plan& plan, const plan::Instruction& n, const nn::Context& ctx) {
  nn::BlockRegions regions = regions_of(plan, n);
  s_.model.modules->block(n.block - 1)
      .recompute(ctx, regions, rope_of(n), at(plan, n[Operand::kY]), at(plan, n[Operand::kX]));
}

nn::BlockRegions Executor::regions_of(const plan::Plan& plan, const plan::Instruction& n) const {
  const auto of = [&](Operand operand) { return region(plan, n[operand]); };
  return {of(Operand::kSaved),
          of(Operand::kSavedForWeightPass),
          of(Operand::kRecomputed),
          of(Operand::kRecomputedForWeightPass),
          of(Operand::kWeightPassInputs),
          n[Operand::kSavedForWeightPass] >= 0 || n[Operand::kRecomputedForWeightPass] >= 0};
}

nn::StreamGradient Executor::gradient_of(const plan::Plan& plan, const plan::Instruction& n) const {
  return {as<float>(plan, n[Operand::kDx]), at(plan, n[Operand::kRoundedDx])};
}

void Executor::backward_block(const plan::Plan& plan, const plan::Instruction& n, const nn::Context& ctx) {
  const nn::StreamGradient dx = gradient_of(plan, n);
  if (n.op == plan::Op::kRoundDx) return nn::Block::round(ctx, dx, s_.model.modules->config().width);
  const nn::Block& block = s_.model.modules->block(n.block - 1);
  const void* const x = at(plan, n[Operand::kX]);
  nn::BlockRegions regions = regions_of(plan, n);
  if (n.op == plan::Op::kBackward) return block.backward(ctx, regions, rope_of(n), dx, x);
  if (n.op == plan::Op::kBackwardInput) return block.backward_input(ctx, regions, rope_of(n), dx, x);
  block.backward_weight(ctx, regions);
}

/// The head's part comes from the last stage, or already lies where the table's gradient does.
void Executor::join_head_gradient(const plan::Plan& plan, const plan::Instruction& n,
                                  const nn::Context& ctx) {
  if (const char* const head_part = at(plan, n[Operand::kAddend])) {
    const parallel::ShardLayout::Table& table = s_.memory.layout->table();
    auto* const gradients = static_cast<float*>(pointers_[static_cast<size_t>(table.group)].gradients);
    s_.memory.link->copy(gradients + table.offset, head_part, table.elements * 4);
  }
  embedding().join(ctx, *lookups(), n.micro_batch);
}

void Executor::head(const plan::Plan& plan, const plan::Instruction& n, const nn::Context& ctx) {
  const nn::Head& head = s_.model.modules->head();
  const nn::StreamInput x = stream_of(plan, n, ctx);
  float* const losses = as<float>(plan, n[Operand::kLosses]);
  if (n.op == plan::Op::kLoss)
    head.forward_backward(ctx, losses, as<float>(plan, n[Operand::kDx]), x, &host_->scalars()->grad_scale);
  else
    head.forward(ctx, losses, x);
  host_->fetch_losses(n.micro_batch, losses, ctx.rows() * (1 + ctx.ahead.depths));
}

/// The objective's weights of the micro-batch, which the host computes.
void Executor::apply_objective(const plan::Plan& plan, const plan::Instruction& n, Run* run) {
  host_->apply_objective(n.micro_batch, as<float>(plan, n[Operand::kLosses]), at(plan, n[Operand::kBatch]),
                         run);
}

/// Copies logits to the caller's memory, or passes them to its reader, in chunks: those of every row, or in
/// generation of the last one.
void Executor::logits(const plan::Plan& plan, const plan::Instruction& n, const nn::Context& ctx,
                      const Run& run) {
  const bool wanted = run.logits != nullptr || run.logits_reader != nullptr,
             divided = ctx.columns->own().ranks > 1;
  if (!wanted && !divided && ctx.exchange->ranks() == 1)
    return;  // this rank only provides its weights to others
  const int64_t first = run.cached >= 0 ? ctx.rows() - 1 : 0;
  const nn::Head& head = s_.model.modules->head();
  const int64_t width = s_.model.modules->config().width, vocab = s_.model.modules->config().outputs();
  const nn::RegionScope of_rows(*ctx.workspace);
  const void* const x = head.whole_rows(ctx, at(plan, n[Operand::kX]));
  for (int64_t row = first; row < ctx.rows(); row += head.chunk_rows(ctx)) {
    const nn::RegionScope scope(*ctx.workspace);
    const int64_t rows = std::min(head.chunk_rows(ctx), ctx.rows() - row);
    float* host = nullptr;
    if (wanted && !divided)
      host = run.logits_reader ? run.logits_reader->room(rows * vocab) : run.logits + (row - first) * vocab;
    float* const out = host && s_.memory.link->in_place() ? host : head.take_logits(ctx, ctx.rows() - first);
    float* const others = divided ? head.take_logits(ctx, ctx.rows()) : nullptr;
    head.logits(ctx, out, nn::advance(x, row * width, ctx.residual_type), rows);
    if (divided) hand_out_columns(ctx, run, row, rows, out, others);
    if (host) s_.memory.link->fetch(host, out, rows * vocab * static_cast<int64_t>(sizeof(float)));
    if (host == nullptr || run.logits_reader == nullptr) continue;
    s_.memory.link->wait();
    for (int64_t i = 0; i < rows; ++i)
      run.logits_reader->take((row + i) / ctx.seq, (row + i) % ctx.seq, host + i * vocab);
  }
  s_.memory.link->wait();
}

/// Ranks that divide columns give each other their logits of rows [row, row + rows), one rank after the
/// other.
void Executor::hand_out_columns(const nn::Context& ctx, const Run& run, int64_t row, int64_t rows, float* own,
                                float* others) {
  const int64_t vocab = s_.model.modules->config().outputs(), ranks = ctx.columns->own().ranks;
  for (int64_t r = 0; r < ranks; ++r) {
    float* const from = r == ctx.columns->own().rank ? own : others;
    ctx.columns->broadcast(from, DType::kF32, rows * vocab, r);
    float* const piece = run.logits_reader ? run.logits_reader->room(rows * vocab) : nullptr;
    const auto column = [&](int64_t i) {
      return nn::LocalColumns{ranks, r}.column((row + i) % ctx.seq, ctx.seq);
    };
    const auto to = [&](int64_t i) {
      return piece ? piece + i * vocab : run.logits + ((row + i) / ctx.seq * run.seq + column(i)) * vocab;
    };
    const bool wanted = piece != nullptr || run.logits != nullptr;
    for (int64_t i = 0; wanted && i < rows; ++i)
      if (column(i) < run.seq)
        s_.memory.link->fetch(to(i), from + i * vocab, vocab * static_cast<int64_t>(sizeof(float)));
    s_.memory.link->wait();
    for (int64_t i = 0; piece != nullptr && i < rows; ++i)
      if (column(i) < run.seq) run.logits_reader->take((row + i) / ctx.seq, column(i), to(i));
  }
}

}  // namespace hawser::train
