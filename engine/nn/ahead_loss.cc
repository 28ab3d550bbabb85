#include "engine/nn/ahead_loss.h"

#include <fmt/format.h>

#include "engine/nn/gathered_rows.h"

namespace hawser::nn {
namespace {

/// Returns the context of a depth's rows: its tokens and targets in place of those of the next token.
Context at_depth(const Context& ctx, size_t depth) {
  Context at = ctx;
  const int64_t first = static_cast<int64_t>(depth) * ctx.rows();
  at.tokens_BT = ctx.ahead.tokens_DBT + first, at.targets_BT = ctx.ahead.targets_DBT + first;
  if (ctx.weights_BT != nullptr) at.weights_BT = ctx.ahead.weights_DBT + first;
  return at;
}

/// Returns the context of a depth's block. The block's backward follows its forward at once, so nothing is
/// recomputed or compressed.
Context of_block(const Context& ctx) {
  Context of = ctx;
  of.remakes = {.rows = ctx.remakes.rows}, of.compress = {};
  of.loss_scale = ctx.ahead.share;
  return of;
}

/// Returns the context of gradients that add to those which the depth before has written. Every rank computes
/// them for all rows.
Context adding(const Context& ctx) {
  Context adds = ctx;
  adds.exchange = &kAlone;
  adds.accumulate = true;
  return adds;
}

}  // namespace

AheadLoss::AheadLoss(const ParameterTable& table, const ModelConfig& model, const ModelConfig& local,
                     const MoeTraining& moe)
    : LmHeadLoss(table, model), embedding_(table, model) {
  depths_.reserve(static_cast<size_t>(model.ahead));
  for (int64_t layer = model.layers; layer < model.layers + model.ahead; ++layer) {
    const auto name = [&](const char* part) { return fmt::format("blocks.{}.{}", layer, part); };
    depths_.push_back({NormLayer(table, model, name("hidden_norm")),
                       NormLayer(table, model, name("embedding_norm")), Linear(table, {name("join")}),
                       Block(table, local, layer, moe), LmHeadLoss(table, model, name("final_norm"))});
  }
}

void AheadLoss::add_further(const Context& ctx, float* losses, float* dx, const void* x) const {
  add(ctx, 0, losses, dx, x, norm());
}

std::vector<const Balance*> AheadLoss::balances() const {
  std::vector<const Balance*> all;
  for (const Depth& depth : depths_)
    if (const Balance* const balance = depth.block.balance()) all.push_back(balance);
  return all;
}

/// Computes the losses of a depth and of all depths after it, and adds their gradients to dx. x and dx are
/// all rows of the depth before, whose norm is `norm`.
void AheadLoss::add(const Context& ctx, size_t number, float* losses, float* dx, const void* x,
                    const NormLayer& norm) const {
  const RegionScope scope(*ctx.workspace);
  const Depth& depth = depths_[number];
  const LocalRows own = ctx.own_rows();
  const Context block = of_block(ctx), target = at_depth(ctx, number);
  const Joined joined = join(target, depth, norm, x);
  const void* const s = advance(joined.s, own.first * model_.width, ctx.residual_type);
  const int64_t saved_bytes = depth.block.saved_bytes(block);
  void* const saved = ctx.workspace->take(saved_bytes);
  BlockRegions regions;
  regions.saved = Region(saved, saved_bytes);
  void* const h = ctx.workspace->take(own.room * model_.width * dtype_bytes(ctx.residual_type));
  depth.block.forward(block, regions, ctx.ahead.cos_sin, h, s);

  const void* const all_h = whole_rows(ctx, h);
  auto* const dh = ctx.workspace->take_as<float>(own.room * model_.width);
  float* const all_dh = ctx.exchange->whole_rows(ctx, dh, model_.width);
  depth.head.forward_backward_rows(target, losses, all_dh, all_h, ctx.ahead.grad_scales + number, true);
  if (number + 1 < depths_.size())
    add(ctx, number + 1, losses + ctx.rows(), all_dh, all_h, depth.head.norm());
  keep_own_rows(ctx, dh, all_dh);

  regions.saved = Region(saved, saved_bytes);
  depth.block.backward(block, regions, ctx.ahead.cos_sin, dh, s);
  const void* const ds = GatheredRows(ctx, dh, DType::kF32, model_.width).all(ctx);
  join_backward(target, number, joined, norm, dx, x, static_cast<const float*>(ds));
}

/// Ranks that divide the rows of the residual stream each compute all rows here.
AheadLoss::Joined AheadLoss::join(const Context& ctx, const Depth& depth, const NormLayer& norm,
                                  const void* x) const {
  const int64_t rows = ctx.rows(), width = model_.width, room = ctx.own_rows().room;
  const NormRows dense{rows, 1, width};
  Joined j;
  j.of_n = norm.take_saved(*ctx.workspace, rows);
  j.of_hidden = depth.hidden_norm.take_saved(*ctx.workspace, rows);
  j.of_embedding = depth.embedding_norm.take_saved(*ctx.workspace, rows);
  j.n = ctx.take(rows * width), j.both = ctx.take(rows * 2 * width);
  j.s = ctx.workspace->take(ctx.exchange->row_ranks() * room * width * dtype_bytes(ctx.residual_type));
  void* const own_e = ctx.workspace->take(room * width * dtype_bytes(ctx.residual_type));
  embedding_.look_up_tokens(ctx, own_e);
  j.e = const_cast<void*>(whole_rows(ctx, own_e));
  depth.embedding_norm.forward(ctx, j.of_embedding, j.both, ctx.type, 2 * width, j.e, ctx.residual_type,
                               dense);
  norm.forward(ctx, j.of_n, j.n, ctx.type, width, x, ctx.residual_type, dense);
  depth.hidden_norm.forward(ctx, j.of_hidden, advance(j.both, width, ctx.type), ctx.type, 2 * width, j.n,
                            ctx.type, dense);
  depth.join.forward(ctx, j.s, ctx.residual_type, width, j.both, rows);
  return j;
}

/// Computes the backward of join from ds[rows, C]. Adds to dx and to the gradients of `norm` and of the
/// embedding's table. If the head is not tied, the last depth is the first to write the table's gradient.
void AheadLoss::join_backward(const Context& ctx, size_t number, const Joined& j, const NormLayer& norm,
                              float* dx, const void* x, const float* ds) const {
  const RegionScope scope(*ctx.workspace);
  const Depth& depth = depths_[number];
  const int64_t rows = ctx.rows(), width = model_.width;
  const NormRows dense{rows, 1, width};
  depth.join.backward_weight(ctx, ds, DType::kF32, j.both, rows);
  auto* const dboth = ctx.workspace->take_as<float>(rows * 2 * width);
  depth.join.backward_input(ctx, dboth, DType::kF32, ds, DType::kF32, rows);
  auto* const d = ctx.workspace->take_as<float>(rows * width);
  depth.hidden_norm.backward(ctx, j.of_hidden, d, DType::kF32, width, dboth + width, DType::kF32, 2 * width,
                             j.n, ctx.type, dense);
  norm.backward_residual(adding(ctx), j.of_n, dx, nullptr, d, DType::kF32, x);
  depth.embedding_norm.backward(ctx, j.of_embedding, d, DType::kF32, width, dboth, DType::kF32, 2 * width,
                                j.e, ctx.residual_type, dense);
  Context table = ctx;
  table.accumulate = ctx.accumulate || model_.tied_head || number + 1 < depths_.size();
  embedding_.add_tokens(table, d);
}

}  // namespace hawser::nn
