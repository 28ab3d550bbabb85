#include "engine/nn/embedding.h"

#include "engine/nn/branch_sum.h"
#include "engine/nn/gathered_rows.h"

namespace hawser::nn {

Embedding::Embedding(const ParameterTable& table, const ModelConfig& model)
    : model_(model),
      words_(VocabShard::of(table, "embedding.tokens.weight")),
      tokens_(table.place("embedding.tokens.weight")),
      positions_(table.place("embedding.positions.weight")) {}

/// Several ranks add their rows in f32, and then round the sum to the type of the stream. With one rank, the
/// exchange does not access the array, so it may have either type.
void Embedding::look_up(const Context& ctx, void* x, bool adds_positions) const {
  const RegionScope scope(*ctx.workspace);
  const LocalRows own = ctx.own_rows();
  const DType type = ctx.exchange->ranks() == 1 ? ctx.residual_type : DType::kF32;
  void* const sum = type == ctx.residual_type ? x : ctx.workspace->take_as<float>(own.room * model_.width);
  const BranchSum rows(ctx, sum, type, model_.width);
  kernels::EmbeddingForward e;
  e.x = rows.all_rows(), e.x_type = type;
  e.tokens_weight = ctx.lookup(tokens_);
  // Only rank 0 adds positions, so that the sum over ranks has them once.
  if (adds_positions && ctx.exchange->rank() == 0) e.positions_weight = ctx.lookup(positions_);
  e.tokens = ctx.tokens_BT;
  e.positions = ctx.positions_BT;
  e.weight_type = ctx.lookup_type;
  e.rows = ctx.rows(), e.d = model_.width;
  e.first_word = words_.first(ctx), e.words = words_.count(ctx);
  e.scale = static_cast<float>(model_.embedding_scale);
  ctx.kernels->embedding_forward(e, *ctx.stream);
  rows.begin(ctx);
  rows.finish();
  if (sum != x)
    ctx.kernels->convert({x, sum, ctx.residual_type, type, own.count * model_.width}, *ctx.stream);
}

void Embedding::forward(const Context& ctx, void* x) const {
  look_up(ctx, x, true);
  kernels::ResidualForward drop;
  drop.dropout = ctx.dropout(model_.dropout_embedding, -1, kSiteEmbedding);
  if (drop.dropout.p == 0) return;
  drop.y = x;
  drop.x = x;
  drop.type = ctx.residual_type;
  drop.rows = ctx.own_rows().count, drop.d = model_.width, drop.seq = ctx.seq;
  ctx.kernels->residual_forward(drop, *ctx.stream);
}

void Embedding::backward(const Context& ctx, float* dx, const LookupGradient* tied,
                         int32_t micro_batch) const {
  kernels::ResidualBackward drop;
  drop.dropout = ctx.dropout(model_.dropout_embedding, -1, kSiteEmbedding);
  if (drop.dropout.p > 0) {
    drop.dbranch = dx;
    drop.dy = dx;
    drop.rows = ctx.own_rows().count, drop.d = model_.width, drop.seq = ctx.seq;
    ctx.kernels->residual_backward(drop, *ctx.stream);
  }
  RegionScope scope(*ctx.workspace);
  kernels::EmbeddingBackward b =
      of_tokens(ctx, static_cast<const float*>(GatheredRows(ctx, dx, DType::kF32, model_.width).all(ctx)));
  if (tied) {
    b.dweight = tied->rows();
    b.index = tied->index(micro_batch);
    b.first = 0;
    b.table_rows = tied->sizes().rows();
    b.skip = -1;
  }
  add_rows(ctx, b);
  b.dweight = ctx.gradient(positions_);
  b.index = ctx.positions_BT;
  b.accumulate = ctx.accumulate;
  b.first = 0;
  b.table_rows = model_.context;
  b.skip = -1;
  b.scale = 1.0f;
  add_rows(ctx, b);
}

kernels::EmbeddingBackward Embedding::of_tokens(const Context& ctx, const float* dx) const {
  kernels::EmbeddingBackward b;
  b.dweight = ctx.gradient(tokens_);
  b.dx = dx;
  b.index = ctx.tokens_BT;
  b.rows = ctx.rows(), b.d = model_.width;
  b.first = words_.first(ctx), b.table_rows = words_.count(ctx);
  b.skip = static_cast<int32_t>(model_.padding_token);
  b.scale = static_cast<float>(model_.embedding_scale);
  b.accumulate = ctx.accumulate;
  return b;
}

void Embedding::add_tokens(const Context& ctx, const float* dx) const { add_rows(ctx, of_tokens(ctx, dx)); }

/// Adds the gradients of rows to the table; does nothing if the table is frozen and has no gradient.
void Embedding::add_rows(const Context& ctx, kernels::EmbeddingBackward b) const {
  if (b.dweight == nullptr) return;
  RegionScope scope(*ctx.workspace);
  const int64_t bytes = ctx.kernels->embedding_backward_workspace_bytes(b, ctx.stream->num_workers);
  b.workspace = ctx.workspace->take(bytes);
  ctx.kernels->embedding_backward(b, *ctx.stream);
}

void Embedding::join(const Context& ctx, const LookupGradient& tied, int32_t micro_batch) const {
  kernels::EmbeddingBackward b;
  b.dweight = ctx.gradient(tokens_);
  b.dx = tied.rows();
  b.index = tied.tokens(micro_batch);
  b.rows = tied.sizes().rows(), b.d = model_.width, b.table_rows = words_.count(ctx);
  b.skip = -1;
  b.accumulate = b.distinct = true;
  add_rows(ctx, b);
}

}  // namespace hawser::nn
