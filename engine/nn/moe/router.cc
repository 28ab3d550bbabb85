#include "engine/nn/moe/router.h"

namespace hawser::nn {

void multiply_f32(const Context& ctx, kernels::Matmul m) {
  RegionScope scope(*ctx.workspace);
  m.workspace = ctx.workspace->take(ctx.kernels->matmul_workspace_bytes(m, ctx.stream->num_workers));
  ctx.kernels->matmul(m, *ctx.stream);
}

Router::Router(const ParameterTable& table, const std::string& prefix, const kernels::RouterShape& shape)
    : weight_(table.place(prefix + ".weight")),
      bias_(table.place(prefix + ".bias")),
      logit_bias_(table.place(prefix + ".logit_bias")),
      width_(table.at(prefix + ".weight").shape[1]),
      shape_(shape) {}

kernels::RouterShape Router::shape(const Context& ctx) const {
  kernels::RouterShape shape = shape_;
  shape.rows = ctx.rows();
  return shape;
}

RouterSaved Router::take_saved(const Context& ctx, Region& region) const {
  const int64_t choices = ctx.rows() * shape_.top_k;
  RouterSaved s;
  s.logits = region.take_as<float>(ctx.rows() * shape_.experts);
  s.choice = region.take_as<int32_t>(choices);
  s.weights = region.take_as<float>(choices);
  return s;
}

/// Returns the rows as f32, in the workspace if they are narrower.
const float* Router::wide(const Context& ctx, const void* x) const {
  if (ctx.type == DType::kF32) return static_cast<const float*>(x);
  const int64_t elements = ctx.rows() * width_;
  auto* const rows = ctx.workspace->take_as<float>(elements);
  ctx.kernels->convert({rows, x, DType::kF32, ctx.type, elements}, *ctx.stream);
  return rows;
}

void Router::forward(const Context& ctx, const RouterSaved& saved, const void* x) const {
  RegionScope scope(*ctx.workspace);
  kernels::Matmul m;  // logits = x W^T + b
  m.c = saved.logits;
  m.a = wide(ctx, x);
  m.b = ctx.lookup_f32(weight_, shape_.experts * width_);
  m.m = ctx.rows(), m.n = shape_.experts, m.k = width_;
  m.ldc = shape_.experts, m.lda = width_, m.ldb = width_;
  m.b_transposed = true;
  m.bias = ctx.lookup_f32(logit_bias_, shape_.experts);
  multiply_f32(ctx, m);
  kernels::RouterForward r;
  r.choice = saved.choice;
  r.weights = saved.weights;
  r.logits = saved.logits;
  r.bias = bias_ ? reinterpret_cast<const float*>(ctx.weight(bias_)) : nullptr;
  r.shape = shape(ctx);
  ctx.kernels->router_forward(r, *ctx.stream);
}

void Router::backward_input(const Context& ctx, const RouterSaved& saved, float* dlogits, float* dx,
                            const float* dweights, const int32_t* place, const RouterLosses& losses) const {
  RegionScope scope(*ctx.workspace);
  kernels::RouterBackward r;
  r.dlogits = dlogits;
  r.logits = saved.logits;
  r.choice = saved.choice;
  r.place = place;
  r.dweights = dweights;
  r.statistics = losses.statistics;
  r.seq = ctx.seq, r.first_row = ctx.first_row;
  r.balance_scale = losses.balance_scale, r.z_scale = losses.z_scale;
  r.loss_scale = ctx.loss_scale;
  r.shape = shape(ctx);
  ctx.kernels->router_backward(r, *ctx.stream);
  kernels::Matmul m;  // dx += dlogits W
  m.c = dx;
  m.a = dlogits;
  m.b = ctx.lookup_f32(weight_, shape_.experts * width_);
  m.m = ctx.rows(), m.n = width_, m.k = shape_.experts;
  m.ldc = width_, m.lda = shape_.experts, m.ldb = width_;
  m.accumulate = true;
  multiply_f32(ctx, m);
}

void Router::backward_weight(const Context& ctx, const float* dlogits, const void* x) const {
  kernels::ColumnSum s;
  s.dy = dlogits;
  s.rows = ctx.rows(), s.n = s.stride = shape_.experts;
  ctx.sum_rows(s, logit_bias_);
  if (ctx.gradient(weight_) == nullptr) return;
  RegionScope scope(*ctx.workspace);
  kernels::Matmul m;  // dW[E, C] (+)= dlogits^T x
  m.c = ctx.gradient(weight_);
  m.a = dlogits;
  m.b = wide(ctx, x);
  m.m = shape_.experts, m.n = width_, m.k = ctx.rows();
  m.ldc = width_, m.lda = shape_.experts, m.ldb = width_;
  m.a_transposed = true;
  m.accumulate = ctx.accumulate;
  multiply_f32(ctx, m);
}

}  // namespace hawser::nn
