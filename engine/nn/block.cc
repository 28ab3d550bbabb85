#include "engine/nn/block.h"

#include <fmt/format.h>

namespace hawser::nn {
namespace {

std::string block_at(int64_t layer, const char* name) { return fmt::format("blocks.{}.{}", layer, name); }

}  // namespace

Block::Block(const ParameterTable& table, const ModelConfig& model, int64_t layer)
    : model_(model),
      layer_(layer),
      width_(model.width),
      attention_norm_(table, model, block_at(layer, "attention_norm")),
      attention_(table, model, layer),
      mlp_norm_(table, model, block_at(layer, "mlp_norm")),
      mlp_(table, model, layer) {
  if (model.post_norm) {
    attention_post_norm_.emplace(table, model, block_at(layer, "attention_post_norm"));
    mlp_post_norm_.emplace(table, model, block_at(layer, "mlp_post_norm"));
  }
}

BlockSaved Block::take_saved(const Context& ctx, Region& region) const {
  const int64_t rows = ctx.own_rows().room;
  BlockSaved s;
  s.attention_norm = attention_norm_.take_saved(region, rows);
  s.attention = attention_.take_saved(ctx, region);
  if (attention_post_norm_) {
    s.attention_post_norm = attention_post_norm_->take_saved(region, rows);
    s.attention_out = region.take_as<float>(rows * width_);
  }
  s.x_mid = region.take_as<float>(rows * width_);
  s.mlp_norm = mlp_norm_.take_saved(region, rows);
  s.mlp = mlp_.take_saved(ctx, region);
  if (mlp_post_norm_) {
    s.mlp_post_norm = mlp_post_norm_->take_saved(region, rows);
    s.mlp_out = region.take_as<float>(rows * width_);
  }
  return s;
}

/// Passes a norm's output into the branch that reads it.
const void* Block::enter(const Context& ctx, const void* n) const {
  return ctx.exchange->enter(ctx, n, ctx.type, width_);
}

/// y = x + dropout(post_norm(branch)), as arguments of the kernel that computes it. The post-norm's output is
/// in the workspace.
kernels::ResidualForward Block::sum(const Context& ctx, const std::optional<NormLayer>& post_norm,
                                    const NormSaved& saved, float* y, const float* x, const float* branch,
                                    DropoutSite site) const {
  const int64_t rows = ctx.own_rows().count;
  kernels::ResidualForward r;
  r.y = y;
  r.x = x;
  r.branch = branch;
  if (post_norm) {
    float* const normed = ctx.workspace->take_as<float>(rows * width_);
    post_norm->forward(ctx, saved, normed, DType::kF32, width_, branch, DType::kF32, {rows, 1, width_});
    r.branch = normed;
  }
  r.rows = rows, r.d = width_, r.seq = ctx.seq;
  r.dropout = ctx.dropout(model_.dropout_residual, layer_, site);
  return r;
}

/// The gradient of the branch's output from dy, the residual's gradient. It is dy itself if nothing lies
/// between; else it has the activation type, so that it is rounded once for all products that read it.
Block::Gradient Block::branch_gradient(const Context& ctx, const std::optional<NormLayer>& post_norm,
                                       const NormSaved& saved, const float* dy, const float* branch,
                                       DropoutSite site) const {
  const OwnRows own = ctx.own_rows();
  kernels::ResidualBackward r;
  r.dropout = ctx.dropout(model_.dropout_residual, layer_, site);
  if (!post_norm && r.dropout.p == 0 && ctx.type == DType::kF32) return {dy, DType::kF32};
  const int64_t elements = own.room * width_;
  if (!post_norm || r.dropout.p > 0) {
    r.branch_type = post_norm ? DType::kF32 : ctx.type;
    r.dbranch = ctx.workspace->take(elements * dtype_bytes(r.branch_type));
    r.dy = dy;
    r.rows = own.count, r.d = width_, r.seq = ctx.seq;
    ctx.kernels->residual_backward(r, *ctx.stream);
    if (!post_norm) return {r.dbranch, r.branch_type};
    dy = static_cast<const float*>(r.dbranch);
  }
  void* const d = ctx.take(elements);
  post_norm->backward(ctx, saved, d, ctx.type, width_, dy, DType::kF32, width_, branch, DType::kF32,
                      {own.count, 1, width_});
  return {d, ctx.type};
}

void Block::forward(const Context& ctx, Region& saved, const float* cos_sin, float* y, const float* x) const {
  const BlockSaved s = take_saved(ctx, saved);
  const OwnRows own = ctx.own_rows();
  RegionScope scope(*ctx.workspace);
  float* const scratch = attention_post_norm_ ? nullptr : ctx.workspace->take_as<float>(own.room * width_);
  void* const n = ctx.take(own.room * width_);

  attention_norm_.forward(ctx, s.attention_norm, n, ctx.type, width_, x, DType::kF32, {own.count, 1, width_});
  float* const attention_out = s.attention_out ? s.attention_out : scratch;
  {
    RegionScope of_branch(*ctx.workspace);
    float* const whole = ctx.exchange->whole_rows(ctx, attention_out, width_);
    attention_.forward(ctx, s.attention, cos_sin, whole, enter(ctx, n));
    ctx.exchange->leave(ctx, attention_out, whole, width_);
  }
  {
    RegionScope of_sum(*ctx.workspace);
    mlp_norm_.forward(
        ctx, s.mlp_norm, n, ctx.type,
        sum(ctx, attention_post_norm_, s.attention_post_norm, s.x_mid, x, attention_out, kSiteAttentionOut));
  }
  float* const mlp_out = s.mlp_out ? s.mlp_out : scratch;
  {
    RegionScope of_branch(*ctx.workspace);
    float* const whole = ctx.exchange->whole_rows(ctx, mlp_out, width_);
    mlp_.forward(ctx, s.mlp, whole, enter(ctx, n));
    ctx.exchange->leave(ctx, mlp_out, whole, width_);
  }
  ctx.kernels->residual_forward(sum(ctx, mlp_post_norm_, s.mlp_post_norm, y, s.x_mid, mlp_out, kSiteMlpOut),
                                *ctx.stream);
}

void Block::backward(const Context& ctx, Region& saved, const float* cos_sin, float* dx,
                     const float* x) const {
  const BlockSaved s = take_saved(ctx, saved);
  const int64_t elements = ctx.own_rows().room * width_;
  {
    RegionScope scope(*ctx.workspace);
    Gradient dy = branch_gradient(ctx, mlp_post_norm_, s.mlp_post_norm, dx, s.mlp_out, kSiteMlpOut);
    dy.data = ctx.exchange->leave_backward(ctx, dy.data, dy.type, width_);
    float* const dn2 = ctx.workspace->take_as<float>(elements);
    float* const whole = ctx.exchange->whole_rows(ctx, dn2, width_);
    const void* const dh = mlp_.backward(ctx, s.mlp, whole, dy.data, dy.type);
    ctx.exchange->enter_backward(ctx, dn2, whole, width_);
    void* const n2 = ctx.take(elements);
    mlp_norm_.backward_residual(ctx, s.mlp_norm, dx, n2, dn2, s.x_mid);
    mlp_.backward_up_weight(ctx, dh, enter(ctx, n2));
  }
  RegionScope scope(*ctx.workspace);
  Gradient dy = branch_gradient(ctx, attention_post_norm_, s.attention_post_norm, dx, s.attention_out,
                                kSiteAttentionOut);
  dy.data = ctx.exchange->leave_backward(ctx, dy.data, dy.type, width_);
  float* const dn1 = ctx.workspace->take_as<float>(elements);
  float* const whole = ctx.exchange->whole_rows(ctx, dn1, width_);
  const void* const dqkv = attention_.backward(ctx, s.attention, cos_sin, whole, dy.data, dy.type);
  ctx.exchange->enter_backward(ctx, dn1, whole, width_);
  void* const n1 = ctx.take(elements);
  attention_norm_.backward_residual(ctx, s.attention_norm, dx, n1, dn1, x);
  attention_.backward_qkv_weight(ctx, dqkv, enter(ctx, n1));
}

/// Generation does not divide rows.
void Block::forward_cached(const Context& ctx, const KvCache& cache, const float* cos_sin, float* x) const {
  const int64_t rows = ctx.rows();
  RegionScope scope(*ctx.workspace);
  void* const n = ctx.take(rows * width_);
  float* const branch = ctx.workspace->take_as<float>(rows * width_);
  const NormSaved statistics = attention_norm_.take_saved(*ctx.workspace, rows);

  attention_norm_.forward(ctx, statistics, n, ctx.type, width_, x, DType::kF32, {rows, 1, width_});
  attention_.forward_cached(ctx, cache, cos_sin, branch, enter(ctx, n));
  ctx.exchange->leave(ctx, branch, branch, width_);
  {
    RegionScope of_sum(*ctx.workspace);
    mlp_norm_.forward(ctx, statistics, n, ctx.type,
                      sum(ctx, attention_post_norm_, statistics, x, x, branch, kSiteAttentionOut));
  }
  mlp_.forward(ctx, mlp_.take_saved(ctx, *ctx.workspace), branch, enter(ctx, n));
  ctx.exchange->leave(ctx, branch, branch, width_);
  ctx.kernels->residual_forward(sum(ctx, mlp_post_norm_, statistics, x, x, branch, kSiteMlpOut), *ctx.stream);
}

}  // namespace hawser::nn
