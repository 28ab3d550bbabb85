#include "engine/nn/moe/output_bias.h"

#include <fmt/format.h>

namespace hawser::nn {

OutputBias::OutputBias(const ParameterTable& table, const ModelConfig& model, int64_t layer)
    : bias_(table.place(fmt::format("blocks.{}.moe.experts.down.bias", layer))),
      experts_(model.moe.experts),
      top_k_(model.moe.top_k),
      width_(model.width) {}

kernels::ChosenExperts OutputBias::chosen(const Context& ctx, const RouterSaved& router,
                                          const Routes& routes) const {
  return {router.choice, routes.place, ctx.rows(), top_k_, experts_};
}

/// Returns the gate weights as a matrix [rows, E], in the workspace.
const float* OutputBias::spread(const Context& ctx, const RouterSaved& router, const Routes& routes) const {
  auto* const weights = ctx.workspace->take_as<float>(ctx.rows() * experts_);
  ctx.kernels->spread_weights({chosen(ctx, router, routes), weights, router.weights}, *ctx.stream);
  return weights;
}

void OutputBias::forward(const Context& ctx, const RouterSaved& router, const Routes& routes,
                         float* y) const {
  if (!bias_ || y == nullptr) return;
  const RegionScope scope(*ctx.workspace);
  kernels::Matmul m;  // y += W B
  m.c = y;
  m.a = spread(ctx, router, routes);
  m.b = ctx.lookup_f32(bias_, experts_ * width_);
  m.m = ctx.rows(), m.n = width_, m.k = experts_;
  m.ldc = width_, m.lda = experts_, m.ldb = width_;
  m.accumulate = true;
  multiply_f32(ctx, m);
}

void OutputBias::backward(const Context& ctx, const RouterSaved& router, const Routes& routes,
                          float* dweights, const void* dy, DType dy_type) const {
  if (!bias_) return;
  const RegionScope scope(*ctx.workspace);
  const int64_t elements = ctx.rows() * width_;
  if (dy_type != DType::kF32) {
    auto* const wide = ctx.workspace->take_as<float>(elements);
    ctx.kernels->convert({wide, dy, DType::kF32, dy_type, elements}, *ctx.stream);
    dy = wide;
  }
  auto* const products = ctx.workspace->take_as<float>(ctx.rows() * experts_);
  kernels::Matmul m;  // dW = dy B^T
  m.c = products;
  m.a = dy;
  m.b = ctx.lookup_f32(bias_, experts_ * width_);
  m.m = ctx.rows(), m.n = experts_, m.k = width_;
  m.ldc = experts_, m.lda = width_, m.ldb = width_;
  m.b_transposed = true;
  multiply_f32(ctx, m);
  ctx.kernels->add_chosen({chosen(ctx, router, routes), dweights, products}, *ctx.stream);
  float* const gradient = ctx.gradient(bias_);
  if (gradient == nullptr) return;
  m = {};  // dB[E, C] (+)= W^T dy
  m.c = gradient;
  m.a = spread(ctx, router, routes);
  m.b = dy;
  m.m = experts_, m.n = width_, m.k = ctx.rows();
  m.ldc = width_, m.lda = experts_, m.ldb = width_;
  m.a_transposed = true;
  m.accumulate = ctx.accumulate;
  multiply_f32(ctx, m);
}

}  // namespace hawser::nn
