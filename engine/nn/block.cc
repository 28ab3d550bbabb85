#include "engine/nn/block.h"

#include <fmt/format.h>

#include <algorithm>

namespace hawser::nn {
namespace {

std::string block_at(int64_t layer, const char* name) { return fmt::format("blocks.{}.{}", layer, name); }

}  // namespace

Block::Block(const ParameterTable& table, const ModelConfig& model, int64_t layer, const MoeTraining& moe)
    : model_(model),
      layer_(layer),
      width_(model.width),
      attention_norm_(table, model, block_at(layer, "attention_norm")),
      attention_(table, model, layer),
      mlp_norm_(table, model, block_at(layer, "mlp_norm")),
      mlp_(table, model, moe, layer) {
  if (model.post_norm) {
    attention_post_norm_.emplace(table, model, block_at(layer, "attention_post_norm"));
    mlp_post_norm_.emplace(table, model, block_at(layer, "mlp_post_norm"));
  }
}

BlockSaved Block::take_saved(const Context& ctx, BlockRegions& regions) const {
  const int64_t rows = ctx.own_rows().room;
  const RecomputeSet& remakes = ctx.remakes;
  Region& rest = regions.of(remakes.rest);
  BlockSaved s;
  s.x_mid = rest.take(rows * width_ * dtype_bytes(ctx.residual_type));
  s.attention_norm = attention_norm_.take_saved(rest, rows);
  s.attention = attention_.take_saved(ctx, regions.of(remakes.qkv), regions.of(remakes.attention),
                                      regions.of(remakes.attention, true));
  if (attention_post_norm_) {
    s.attention_post_norm = attention_post_norm_->take_saved(rest, rows);
    s.attention_out = rest.take(rows * width_ * dtype_bytes(attention_.y_type(ctx)));
  }
  s.mlp_norm = mlp_norm_.take_saved(rest, rows);
  s.mlp = mlp_.take_saved(mlp_.context(ctx), regions.of(remakes.mlp_hidden),
                          regions.of(remakes.mlp_hidden, true));
  if (mlp_post_norm_) {
    s.mlp_post_norm = mlp_post_norm_->take_saved(rest, rows);
    s.mlp_out = rest.take(rows * width_ * dtype_bytes(mlp_.y_type(ctx)));
  }
  return s;
}

int64_t Block::saved_bytes(const Context& ctx) const {
  BlockRegions regions;
  regions.saved = Region::measuring();
  take_saved(ctx, regions);
  return regions.saved.used();
}

/// Passes a norm's output to the ranks that compute the branch.
GatheredRows Block::enter(const Context& ctx, const void* n) const { return {ctx, n, ctx.type, width_}; }

/// Returns the kernel arguments for y = x + dropout(post_norm(branch)). The post-norm's output is in the
/// workspace.
kernels::ResidualForward Block::sum(const Context& ctx, const std::optional<NormLayer>& post_norm,
                                    const NormSaved& saved, void* y, const void* x, Branch branch,
                                    DropoutSite site) const {
  const int64_t rows = ctx.own_rows().count;
  kernels::ResidualForward r;
  r.y = y;
  r.x = x;
  r.type = ctx.residual_type;
  r.branch = branch.data, r.branch_type = branch.type;
  if (post_norm) {
    float* const normed = ctx.workspace->take_as<float>(rows * width_);
    post_norm->forward(ctx, saved, normed, DType::kF32, width_, branch.data, branch.type, {rows, 1, width_});
    r.branch = normed, r.branch_type = DType::kF32;
  }
  r.rows = rows, r.d = width_, r.seq = ctx.seq;
  r.dropout = ctx.dropout(model_.dropout_residual, layer_, site);
  return r;
}

/// Returns the gradient of the branch's output, from the gradient of the residual stream. It is that gradient
/// if there is nothing between them; otherwise it has the activation type, so that it is rounded once for all
/// products that read it.
Block::Branch Block::branch_gradient(const Context& ctx, const std::optional<NormLayer>& post_norm,
                                     const NormSaved& saved, const StreamGradient& dx, Branch branch,
                                     DropoutSite site) const {
  if (dx.rounded != nullptr) return {dx.rounded, ctx.type};
  const float* dy = dx.dx;
  const LocalRows own = ctx.own_rows();
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
  post_norm->backward(ctx, saved, d, ctx.type, width_, dy, DType::kF32, width_, branch.data, branch.type,
                      {own.count, 1, width_});
  return {d, ctx.type};
}

void Block::round(const Context& ctx, const StreamGradient& dx, int64_t width) {
  kernels::ResidualBackward r;
  r.dbranch = dx.rounded, r.branch_type = ctx.type;
  r.dy = dx.dx;
  r.rows = ctx.own_rows().count, r.d = width, r.seq = ctx.seq;
  ctx.kernels->residual_backward(r, *ctx.stream);
}

/// Returns the bytes of `rows` rows of either branch's output.
int64_t Block::output_bytes(const Context& ctx, int64_t rows) const {
  return rows * width_ * std::max(dtype_bytes(attention_.y_type(ctx)), dtype_bytes(mlp_.y_type(ctx)));
}

kernels::ResidualForward Block::last_sum(const Context& ctx, void* y, const void* x_mid,
                                         const void* branch) const {
  HWS_CHECK(!mlp_post_norm_);
  return sum(ctx, mlp_post_norm_, {}, y, x_mid, {branch, mlp_.y_type(ctx)}, kSiteMlpOut);
}

void Block::forward(const Context& ctx, BlockRegions& regions, const float* cos_sin, void* y,
                    const StreamInput& x, void* branch) const {
  BlockSaved s = take_saved(ctx, regions);
  if (branch != nullptr && ctx.remakes.rest) s.x_mid = y;
  forward(ctx, s, cos_sin, y, x, branch);
}

/// If y and `left` are null, forward computes only the activations that backward needs: it omits the last
/// product and sum, unless a post-norm follows them. If `left` is not null, it receives the output of the
/// second branch, and the sum is left to the reader of y. Before that, `left` holds the output of the first
/// branch.
void Block::forward(const Context& ctx, const BlockSaved& s, const float* cos_sin, void* y,
                    const StreamInput& x, void* left) const {
  const LocalRows own = ctx.own_rows();
  RegionScope scope(*ctx.workspace);
  void* scratch = left;
  if (left == nullptr && !attention_post_norm_) scratch = ctx.workspace->take(output_bytes(ctx, own.room));
  void* const n = ctx.take(own.room * width_);
  forward_attention(ctx, s, cos_sin, n, s.attention_out ? s.attention_out : scratch, x);
  void* const mlp_out = s.mlp_out ? s.mlp_out : scratch;
  const bool ends_here = y == nullptr && left == nullptr && !mlp_post_norm_;
  {
    RegionScope of_branch(*ctx.workspace);
    const Context branch = mlp_.context(ctx);
    if (ends_here && mlp_.remakes_in_tiles(branch)) return;
    GatheredRows in = enter(branch, n);
    if (ends_here) return mlp_.forward(branch, s.mlp, nullptr, &in);
    const BranchSum of_ranks(branch, mlp_out, mlp_.y_type(ctx), width_);
    mlp_.forward(branch, s.mlp, &of_ranks, &in);
    of_ranks.finish();
  }
  if (left != nullptr) return;
  const kernels::ResidualForward last =
      sum(ctx, mlp_post_norm_, s.mlp_post_norm, y, s.x_mid, {mlp_out, mlp_.y_type(ctx)}, kSiteMlpOut);
  if (y != nullptr) ctx.kernels->residual_forward(last, *ctx.stream);
}

/// Computes the first branch, then x' and its norm n, the input of the second branch.
void Block::forward_attention(const Context& ctx, const BlockSaved& s, const float* cos_sin, void* n,
                              void* out, const StreamInput& x) const {
  attention_norm_.forward(ctx, s.attention_norm, n, ctx.type, x, ctx.own_rows().count);
  {
    RegionScope of_branch(*ctx.workspace);
    const BranchSum of_ranks(ctx, out, attention_.y_type(ctx), width_);
    GatheredRows in = enter(ctx, n);
    attention_.forward(ctx, s.attention, cos_sin, of_ranks, &in);
    of_ranks.finish();
  }
  RegionScope of_sum(*ctx.workspace);
  mlp_norm_.forward(ctx, s.mlp_norm, n, ctx.type,
                    sum(ctx, attention_post_norm_, s.attention_post_norm, s.x_mid, x.x,
                        {out, attention_.y_type(ctx)}, kSiteAttentionOut));
}

void Block::recompute(const Context& ctx, BlockRegions& regions, const float* cos_sin, void* y,
                      const void* x) const {
  const RecomputeSet& remakes = ctx.remakes;
  const BlockSaved s = take_saved(ctx, regions);
  if (remakes.rest) return forward(ctx, s, cos_sin, y, x, nullptr);
  const NormRows rows{ctx.own_rows().count, 1, width_};
  RegionScope scope(*ctx.workspace);
  void* const n = ctx.take(ctx.own_rows().room * width_);
  if (remakes.qkv)
    attention_norm_.forward(ctx, s.attention_norm, n, ctx.type, width_, x, ctx.residual_type, rows);
  if (remakes.qkv || remakes.attention) {
    RegionScope of_branch(*ctx.workspace);
    GatheredRows in = enter(ctx, n);
    attention_.recompute(ctx, s.attention, cos_sin, remakes.qkv ? &in : nullptr, remakes.attention);
  }
  if (!remakes.mlp_hidden || mlp_.remakes_in_tiles(ctx)) return;
  mlp_norm_.forward(ctx, s.mlp_norm, n, ctx.type, width_, s.x_mid, ctx.residual_type, rows);
  const Context branch = mlp_.context(ctx);
  GatheredRows in = enter(branch, n);
  mlp_.forward(branch, s.mlp, nullptr, &in);
}

WeightPassInputs Block::take_weight_pass_inputs(const Context& ctx, const BlockSaved& saved,
                                                Region& region) const {
  const int64_t all = ctx.rows() * width_ * dtype_bytes(ctx.type);
  WeightPassInputs made;
  made.mlp_dy = region.take(all);
  mlp_.take_weight_pass_inputs(mlp_.context(ctx), region, &made.mlp);
  mlp_.take_activation(mlp_.context(ctx), saved.mlp, region, &made.mlp);
  made.mlp_in = mlp_input(ctx).take(ctx, region);
  made.attention_dy = region.take(all);
  made.attention = attention_.take_weight_pass_inputs(ctx, region);
  made.attention_in = attention_input(ctx).take(ctx, region);
  return made;
}

/// Copies a gradient of all rows, which has the activation type.
void Block::copy(const Context& ctx, void* to, const void* from, DType type) const {
  HWS_CHECK(type == ctx.type);
  ctx.kernels->convert({to, from, ctx.type, ctx.type, ctx.rows() * width_}, *ctx.stream);
}

void Block::backward(const Context& ctx, BlockRegions& regions, const float* cos_sin,
                     const StreamGradient& dx, const void* x) const {
  const BlockSaved s = take_saved(ctx, regions);
  backward_mlp(ctx, s, dx, nullptr);
  backward_attention(ctx, s, cos_sin, dx, x, nullptr);
}

void Block::backward_input(const Context& ctx, BlockRegions& regions, const float* cos_sin,
                           const StreamGradient& dx, const void* x) const {
  const BlockSaved s = take_saved(ctx, regions);
  const WeightPassInputs made = take_weight_pass_inputs(ctx, s, regions.made);
  backward_mlp(ctx, s, dx, &made);
  backward_attention(ctx, s, cos_sin, dx, x, &made);
}

void Block::backward_weight(const Context& ctx, BlockRegions& regions) const {
  regions.saved = regions.remade = Region::measuring();  // backward_weight does not read them
  const BlockSaved s = take_saved(ctx, regions);
  const WeightPassInputs made = take_weight_pass_inputs(ctx, s, regions.made);
  const Context branch = mlp_.context(ctx);
  mlp_.backward_down_weight(branch, s.mlp, made.mlp, made.mlp_dy, ctx.type);
  {
    const RegionScope of_rows(*ctx.workspace);
    GatheredRows in = enter(branch, mlp_input(ctx).decode(ctx, made.mlp_in));
    mlp_.backward_up_weight(branch, s.mlp, made.mlp, in.all(branch));
  }
  attention_.backward_out_weight(ctx, s.attention, made.attention_dy, ctx.type);
  const RegionScope of_rows(*ctx.workspace);
  GatheredRows in = enter(ctx, attention_input(ctx).decode(ctx, made.attention_in));
  attention_.backward_in_weight(ctx, made.attention, in.all(ctx));
}

/// Computes the gradients of the projections too, unless `later` keeps their inputs for the weight pass. The
/// last projection's gradients overlap with the exchange of the branch's input gradient, except with DoRA:
/// its gradients need an exchange of norms themselves.
void Block::backward_mlp(const Context& ctx, const BlockSaved& s, const StreamGradient& dx,
                         const WeightPassInputs* later) const {
  const RegionScope scope(*ctx.workspace);
  const int64_t elements = ctx.own_rows().room * width_;
  const Branch own_dy =
      branch_gradient(ctx, mlp_post_norm_, s.mlp_post_norm, dx, {s.mlp_out, mlp_.y_type(ctx)}, kSiteMlpOut);
  const Context branch = mlp_.context(ctx);
  GatheredRows dy(branch, own_dy.data, own_dy.type, width_);
  const DType dn_type = mlp_.dx_type(ctx);
  void* const dn = ctx.workspace->take(elements * dtype_bytes(dn_type));
  if (mlp_.is_tiled(branch)) {
    if (later) copy(branch, later->mlp_dy, dy.all(branch), own_dy.type);
    backward_mlp_in_tiles(branch, s, dn, {dy.all(branch), own_dy.type}, later);
    void* const kept = later ? mlp_input(ctx).full(ctx, later->mlp_in) : nullptr;
    mlp_norm_.backward_residual(ctx, s.mlp_norm, dx, kept, dn, dn_type, s.x_mid);
    if (later) mlp_input(ctx).encode(ctx, later->mlp_in, kept);
    return;
  }
  const BranchSum of_ranks(branch, dn, dn_type, width_);
  FeedForwardMade made = later ? later->mlp : FeedForwardMade();
  if (!later) mlp_.take_weight_pass_inputs(branch, *ctx.workspace, &made);
  {
    const RegionScope of_activation(*ctx.workspace);
    if (!later) mlp_.take_activation(branch, s.mlp, *ctx.workspace, &made);
    mlp_.backward_input(branch, s.mlp, made, of_ranks, &dy, own_dy.type);
    if (model_.adapter.dora) of_ranks.finish();
    if (later) copy(branch, later->mlp_dy, dy.all(branch), own_dy.type);
    if (!later) mlp_.backward_down_weight(branch, s.mlp, made, dy.all(branch), own_dy.type);
    if (!model_.adapter.dora) of_ranks.finish();
  }
  void* const in = later ? mlp_input(ctx).full(ctx, later->mlp_in) : ctx.take(elements);
  mlp_norm_.backward_residual(ctx, s.mlp_norm, dx, in, dn, dn_type, s.x_mid);
  if (later) return mlp_input(ctx).encode(ctx, later->mlp_in, in);
  mlp_.backward_up_weight(branch, s.mlp, made, enter(branch, in).all(branch));
}

/// Computes dn, the gradient of the branch's input, and the gradients of its weights unless they come later.
/// A tile needs the branch's input before dn is known, so the norm's forward runs once more.
void Block::backward_mlp_in_tiles(const Context& ctx, const BlockSaved& s, void* dn, Branch dy,
                                  const WeightPassInputs* later) const {
  const RegionScope scope(*ctx.workspace);
  const void* in = nullptr;
  if (!later || mlp_.remakes_in_tiles(ctx)) {
    const LocalRows own = ctx.own_rows();
    void* const n = ctx.take(own.room * width_);
    mlp_norm_.forward(ctx, mlp_norm_.take_saved(*ctx.workspace, own.room), n, ctx.type, width_, s.x_mid,
                      ctx.residual_type, {own.count, 1, width_});
    in = enter(ctx, n).all(ctx);
  }
  const BranchSum of_ranks(ctx, dn, mlp_.dx_type(ctx), width_);
  mlp_.backward_in_tiles(ctx, s.mlp, later ? later->mlp : FeedForwardMade(), of_ranks, dy.data, dy.type, in,
                         later == nullptr);
  of_ranks.finish();
}

void Block::backward_attention(const Context& ctx, const BlockSaved& s, const float* cos_sin,
                               const StreamGradient& dx, const void* x, const WeightPassInputs* later) const {
  const RegionScope scope(*ctx.workspace);
  const int64_t elements = ctx.own_rows().room * width_;
  const Branch own_dy = branch_gradient(ctx, attention_post_norm_, s.attention_post_norm, dx,
                                        {s.attention_out, attention_.y_type(ctx)}, kSiteAttentionOut);
  GatheredRows dy(ctx, own_dy.data, own_dy.type, width_);
  const DType dn_type = attention_.dx_type(ctx);
  void* const dn = ctx.workspace->take(elements * dtype_bytes(dn_type));
  const BranchSum of_ranks(ctx, dn, dn_type, width_);
  const SelfAttentionMade made =
      later ? later->attention : attention_.take_weight_pass_inputs(ctx, *ctx.workspace);
  attention_.backward_input(ctx, s.attention, cos_sin, made, of_ranks, &dy, own_dy.type);
  if (model_.adapter.dora) of_ranks.finish();
  if (later) copy(ctx, later->attention_dy, dy.all(ctx), own_dy.type);
  if (!later) attention_.backward_out_weight(ctx, s.attention, dy.all(ctx), own_dy.type);
  if (!model_.adapter.dora) of_ranks.finish();
  void* const in = later ? attention_input(ctx).full(ctx, later->attention_in) : ctx.take(elements);
  attention_norm_.backward_residual(ctx, s.attention_norm, dx, in, dn, dn_type, x);
  if (later) return attention_input(ctx).encode(ctx, later->attention_in, in);
  attention_.backward_in_weight(ctx, made, enter(ctx, in).all(ctx));
}

/// In generation, ranks do not divide the rows.
void Block::forward_cached(const Context& ctx, const KvCache& cache, const float* cos_sin, void* x) const {
  const int64_t rows = ctx.rows();
  RegionScope scope(*ctx.workspace);
  void* const n = ctx.take(rows * width_);
  void* const branch = ctx.workspace->take(output_bytes(ctx, rows));
  const NormSaved statistics = attention_norm_.take_saved(*ctx.workspace, rows);

  attention_norm_.forward(ctx, statistics, n, ctx.type, x, rows);
  const BranchSum attended(ctx, branch, attention_.y_type(ctx), width_);
  attention_.forward_cached(ctx, cache, cos_sin, attended, enter(ctx, n).all(ctx));
  attended.finish();
  {
    RegionScope of_sum(*ctx.workspace);
    mlp_norm_.forward(ctx, statistics, n, ctx.type,
                      sum(ctx, attention_post_norm_, statistics, x, x, {branch, attention_.y_type(ctx)},
                          kSiteAttentionOut));
  }
  const Context of_mlp = mlp_.context(ctx);
  const BranchSum of_ranks(of_mlp, branch, mlp_.y_type(ctx), width_);
  GatheredRows in = enter(of_mlp, n);
  mlp_.forward(of_mlp, mlp_.take_saved(of_mlp, *ctx.workspace, *ctx.workspace), &of_ranks, &in);
  of_ranks.finish();
  ctx.kernels->residual_forward(
      sum(ctx, mlp_post_norm_, statistics, x, x, {branch, mlp_.y_type(ctx)}, kSiteMlpOut), *ctx.stream);
}

}  // namespace hawser::nn
