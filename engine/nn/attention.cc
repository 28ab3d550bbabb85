#include "engine/nn/attention.h"

#include <fmt/format.h>

namespace hawser::nn {
namespace {

std::string attention_at(int64_t layer, const char* name) {
  return fmt::format("blocks.{}.attention.{}", layer, name);
}

}  // namespace

Attention::Attention(const ParameterTable& table, const ModelConfig& model, int64_t layer)
    : model_(model),
      heads_(model.heads),
      kv_heads_(model.kv_heads),
      head_dim_(model.head_dim),
      qkv_width_((model.heads + 2 * model.kv_heads) * model.head_dim),
      qk_width_((model.heads + model.kv_heads) * model.head_dim),
      qkv_(table, {attention_at(layer, "q"), attention_at(layer, "k"), attention_at(layer, "v")}),
      out_(table, {attention_at(layer, "o")}),
      core_(table, model, layer) {
  if (model.qk_norm) {
    q_norm_.emplace(table, model, attention_at(layer, "q_norm"), true);
    k_norm_.emplace(table, model, attention_at(layer, "k_norm"), true);
  }
}

AttentionSaved Attention::take_saved(const Context& ctx, Region& region, Region& core, Region& kept) const {
  const int64_t rows = ctx.rows();
  AttentionSaved saved;
  saved.core = core_.take_saved(ctx, core, kept);
  if (saved.core.exchanged == nullptr) saved.qkv = inputs(ctx).take(ctx, region);
  if (q_norm_) {
    saved.raw_qk = raw_inputs(ctx).take(ctx, region);
    saved.q_norm = q_norm_->take_saved(region, rows * heads_);
    saved.k_norm = k_norm_->take_saved(region, rows * kv_heads_);
  }
  return saved;
}

/// q, k and v are next to each other in the rows of saved.qkv; null if the core keeps them.
AttentionInputs Attention::core_inputs(const Context& ctx, const AttentionSaved& saved) const {
  if (saved.qkv == nullptr) return {nullptr, nullptr, nullptr, qkv_width_, qkv_width_};
  return {saved.qkv, advance(saved.qkv, heads_ * head_dim_, ctx.type),
          advance(saved.qkv, qk_width_, ctx.type), qkv_width_, qkv_width_};
}

/// Rotates the first rope_dim elements of each head.
void Attention::rotate(const Context& ctx, const float* cos_sin, void* x, int64_t heads, int64_t stride,
                       bool inverse) const {
  if (model_.position != Position::kRotary) return;
  kernels::Rope r;
  r.x = x;
  r.cos_sin = cos_sin;
  r.positions = ctx.positions_BT;
  r.type = ctx.type;
  r.rows = ctx.rows(), r.heads = heads, r.d = model_.rope_dim(), r.stride = stride;
  r.head_stride = head_dim_;
  r.inverse = inverse;
  ctx.kernels->rope(r, *ctx.stream);
}

/// Computes rows of the projections, from row `first` on.
void Attention::project_rows(const Context& part, const AttentionSaved& saved, int64_t first,
                             const void* x) const {
  const int64_t rows = part.rows();
  void* const qkv = advance(saved.qkv, first * qkv_width_, part.type);
  if (!q_norm_) return qkv_.forward(part, qkv, part.type, qkv_width_, x, rows);
  void* const raw_q = advance(saved.raw_qk, first * qk_width_, part.type);
  qkv_.forward_part(part, 0, raw_q, qk_width_, x, rows);
  qkv_.forward_part(part, 1, advance(raw_q, heads_ * head_dim_, part.type), qk_width_, x, rows);
  qkv_.forward_part(part, 2, advance(qkv, qk_width_, part.type), qkv_width_, x, rows);
}

void Attention::project(const Context& ctx, const AttentionSaved& saved, GatheredRows* x) const {
  x->compute(ctx, [&](const Context& part, int64_t first, const void* rows_of_x) {
    project_rows(part, saved, first, rows_of_x);
  });
  if (!q_norm_) return;
  const int64_t rows = ctx.rows(), k_begin = heads_ * head_dim_;
  void* const raw_k = advance(saved.raw_qk, k_begin, ctx.type);
  q_norm_->forward(ctx, saved.q_norm, saved.qkv, ctx.type, qkv_width_, saved.raw_qk, ctx.type,
                   {rows, heads_, qk_width_});
  k_norm_->forward(ctx, saved.k_norm, advance(saved.qkv, k_begin, ctx.type), ctx.type, qkv_width_, raw_k,
                   ctx.type, {rows, kv_heads_, qk_width_});
}

void Attention::forward(const Context& ctx, const AttentionSaved& saved, const float* cos_sin,
                        const BranchSum& y, GatheredRows* x) const {
  RegionScope scope(*ctx.workspace);
  AttentionSaved full = saved;
  full.qkv = inputs(ctx).full(ctx, saved.qkv), full.raw_qk = raw_inputs(ctx).full(ctx, saved.raw_qk);
  full.core.o = core_.output(ctx).full(ctx, saved.core.o);
  recompute(ctx, full, cos_sin, x, true);
  y.compute_forward(ctx, out_, full.core.o);
  inputs(ctx).encode(ctx, saved.qkv, full.qkv), raw_inputs(ctx).encode(ctx, saved.raw_qk, full.raw_qk);
  core_.output(ctx).encode(ctx, saved.core.o, full.core.o);
}

void Attention::recompute(const Context& ctx, AttentionSaved saved, const float* cos_sin, GatheredRows* x,
                          bool attends) const {
  RegionScope scope(*ctx.workspace);
  if (saved.qkv == nullptr) saved.qkv = ctx.take(ctx.rows() * qkv_width_);
  if (x != nullptr) {
    project(ctx, saved, x);
    rotate(ctx, cos_sin, saved.qkv, heads_ + kv_heads_, qkv_width_, false);
  }
  if (attends) core_.forward(ctx, saved.core, core_inputs(ctx, saved));
}

void* Attention::take_dqkv(const Context& ctx, Region& region) const {
  return region.take(ctx.rows() * qkv_width_ * dtype_bytes(ctx.type));
}

void Attention::backward_input(const Context& ctx, const AttentionSaved& saved, const float* cos_sin,
                               void* dqkv, const BranchSum& dx, GatheredRows* dy, DType dy_type) const {
  const int64_t rows = ctx.rows(), k_begin = heads_ * head_dim_;
  void* const dk = advance(dqkv, k_begin, ctx.type);
  RegionScope of_raw(*ctx.workspace);
  void* const raw_qk = raw_inputs(ctx).decode(ctx, saved.raw_qk);
  {
    RegionScope scope(*ctx.workspace);
    AttentionSaved full = saved;
    full.qkv = inputs(ctx).decode(ctx, saved.qkv);
    full.core.o = core_.output(ctx).decode(ctx, saved.core.o);
    void* const d_o = ctx.take(rows * out_.in());
    dy->compute_input_gradient(ctx, out_, d_o, dy_type);
    core_.backward(ctx, full.core, core_inputs(ctx, full), {dqkv, dk, advance(dqkv, qk_width_, ctx.type)},
                   d_o);
  }
  rotate(ctx, cos_sin, dqkv, heads_ + kv_heads_, qkv_width_, true);
  if (q_norm_) {
    q_norm_->backward(ctx, saved.q_norm, dqkv, ctx.type, qkv_width_, dqkv, ctx.type, qkv_width_, raw_qk,
                      ctx.type, {rows, heads_, qk_width_});
    k_norm_->backward(ctx, saved.k_norm, dk, ctx.type, qkv_width_, dk, ctx.type, qkv_width_,
                      advance(raw_qk, k_begin, ctx.type), ctx.type, {rows, kv_heads_, qk_width_});
  }
  dx.compute(ctx, [&](const Context& part, int64_t first, void* to) {
    qkv_.backward_input(part, to, dx.type(), advance(dqkv, first * qkv_width_, ctx.type), ctx.type,
                        part.rows());
  });
}

void Attention::backward_out_weight(const Context& ctx, const AttentionSaved& saved, const void* dy,
                                    DType dy_type) const {
  RegionScope scope(*ctx.workspace);
  out_.backward_weight(ctx, dy, dy_type, core_.output(ctx).decode(ctx, saved.core.o), ctx.rows());
}

void Attention::backward_qkv_weight(const Context& ctx, const void* dqkv, const void* x) const {
  qkv_.backward_weight(ctx, dqkv, ctx.type, x, ctx.rows());
}

void Attention::forward_cached(const Context& ctx, const KvCache& cache, const float* cos_sin,
                               const BranchSum& y, const void* x) const {
  const int64_t rows = ctx.rows(), kv_width = kv_heads_ * head_dim_, q_width = heads_ * head_dim_;
  RegionScope scope(*ctx.workspace);
  void* const q = ctx.take(rows * q_width);
  const AttentionCoreSaved core = core_.take_saved(ctx, *ctx.workspace, *ctx.workspace);
  void* const values = static_cast<char*>(cache.rows) + cache.bytes / 2;
  void* const k = advance(cache.rows, cache.length * kv_width, ctx.type);
  void* const v = advance(values, cache.length * kv_width, ctx.type);
  qkv_.forward_part(ctx, 0, q, q_width, x, rows);
  qkv_.forward_part(ctx, 1, k, kv_width, x, rows);
  qkv_.forward_part(ctx, 2, v, kv_width, x, rows);
  if (q_norm_) {
    q_norm_->forward(ctx, q_norm_->take_saved(*ctx.workspace, rows * heads_), q, ctx.type, q_width, q,
                     ctx.type, {rows, heads_, q_width});
    k_norm_->forward(ctx, k_norm_->take_saved(*ctx.workspace, rows * kv_heads_), k, ctx.type, kv_width, k,
                     ctx.type, {rows, kv_heads_, kv_width});
  }
  rotate(ctx, cos_sin, q, heads_, q_width, false);
  rotate(ctx, cos_sin, k, kv_heads_, kv_width, false);
  core_.forward_cached(ctx, core, {q, cache.rows, values, q_width, kv_width}, cache.length);
  y.compute_forward(ctx, out_, core.o);
}

}  // namespace hawser::nn
