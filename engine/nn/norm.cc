#include "engine/nn/norm.h"

namespace hawser::nn {

NormLayer::NormLayer(const ParameterTable& table, const ModelConfig& model, const std::string& prefix,
                     bool rms, double eps)
    : rms_(rms || model.norm == Norm::kRmsNorm),
      eps_(static_cast<float>(eps > 0 ? eps : model.norm_eps)),
      weight_offset_(static_cast<float>(model.norm_weight_offset)) {
  const Parameter& weight = table.at(prefix + ".weight");
  weight_ = table.place(prefix + ".weight");
  bias_ = table.place(prefix + ".bias");
  d_ = weight.shape[0];
}

NormSaved NormLayer::take_saved(Region& region, int64_t vectors) const {
  NormSaved saved;
  if (!rms_) saved.mean = region.take_as<float>(vectors);
  saved.rstd = region.take_as<float>(vectors);
  return saved;
}

kernels::NormForward NormLayer::arguments(const Context& ctx, const NormSaved& saved, void* y,
                                          DType y_type) const {
  kernels::NormForward n;
  n.y = y;
  n.mean = saved.mean;
  n.rstd = saved.rstd;
  n.weight = ctx.lookup(weight_);
  n.bias = ctx.lookup(bias_);
  n.y_type = y_type;
  n.weight_type = ctx.lookup_type;
  n.d = d_;
  n.eps = eps_, n.weight_offset = weight_offset_;
  return n;
}

void NormLayer::forward(const Context& ctx, const NormSaved& saved, void* y, DType y_type, int64_t y_stride,
                        const void* x, DType x_type, NormRows rows) const {
  kernels::NormForward n = arguments(ctx, saved, y, y_type);
  n.x = x;
  n.x_type = x_type;
  n.rows = rows.rows, n.groups = rows.groups;
  n.y_stride = y_stride, n.x_stride = rows.stride;
  ctx.kernels->norm_forward(n, *ctx.stream);
}

void NormLayer::forward(const Context& ctx, const NormSaved& saved, void* y, DType y_type,
                        const kernels::ResidualForward& x) const {
  kernels::NormForward n = arguments(ctx, saved, y, y_type);
  n.residual = x;
  n.x = x.y, n.x_type = x.type;
  n.rows = x.rows;
  n.y_stride = n.x_stride = d_;
  ctx.kernels->norm_forward(n, *ctx.stream);
}

void NormLayer::forward(const Context& ctx, const NormSaved& saved, void* y, DType y_type,
                        const StreamInput& x, int64_t rows) const {
  if (x.is_sum()) return forward(ctx, saved, y, y_type, x.sum);
  forward(ctx, saved, y, y_type, d_, x.x, ctx.residual_type, {rows, 1, d_});
}

kernels::NormBackward NormLayer::backward_arguments(const Context& ctx, const NormSaved& saved) const {
  kernels::NormBackward n;
  n.weight = ctx.lookup(weight_);
  n.mean = saved.mean;
  n.rstd = saved.rstd;
  n.weight_type = ctx.lookup_type;
  n.d = d_;
  n.weight_offset = weight_offset_;
  n.weights_accumulate = ctx.accumulate;
  return n;
}

void NormLayer::run(const Context& ctx, kernels::NormBackward n) const {
  RegionScope scope(*ctx.workspace);
  n.dweight = ctx.summed_gradient(weight_, d_);
  n.dbias = ctx.summed_gradient(bias_, d_);
  const bool trains = n.dweight != nullptr;
  // If the weight is frozen, its gradient is computed and discarded.
  if (n.dweight == nullptr) n.dweight = ctx.workspace->take_as<float>(d_);
  n.workspace = ctx.workspace->take(ctx.kernels->norm_backward_workspace_bytes(n, ctx.stream->num_workers));
  ctx.kernels->norm_backward(n, *ctx.stream);
  if (trains) ctx.round_gradient(weight_, n.dweight, d_);
  if (n.dbias != nullptr) ctx.round_gradient(bias_, n.dbias, d_);
}

void NormLayer::backward(const Context& ctx, const NormSaved& saved, void* dx, DType dx_type,
                         int64_t dx_stride, const void* dy, DType dy_type, int64_t dy_stride, const void* x,
                         DType x_type, NormRows rows) const {
  kernels::NormBackward n = backward_arguments(ctx, saved);
  n.dx = dx;
  n.dy = dy;
  n.x = x;
  n.dx_type = dx_type, n.dy_type = dy_type, n.x_type = x_type;
  n.rows = rows.rows, n.groups = rows.groups;
  n.dx_stride = dx_stride, n.dy_stride = dy_stride, n.x_stride = rows.stride;
  run(ctx, n);
}

void NormLayer::backward_residual(const Context& ctx, const NormSaved& saved, const StreamGradient& dx,
                                  void* y, const void* dy, DType dy_type, const void* x) const {
  kernels::NormBackward n = backward_arguments(ctx, saved);
  n.dx = dx.dx;
  n.rounded = dx.rounded;
  n.dx_accumulate = true;
  n.y = y;
  n.y_type = ctx.type;
  n.bias = ctx.lookup(bias_);
  n.dy = dy, n.dy_type = dy_type;
  n.x = x, n.x_type = ctx.residual_type;
  n.rows = ctx.own_rows().count;
  n.dx_stride = n.dy_stride = n.x_stride = n.y_stride = d_;
  run(ctx, n);
}

}  // namespace hawser::nn
