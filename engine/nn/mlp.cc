#include "engine/nn/mlp.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/nn/tiled_sums.h"

namespace hawser::nn {

std::vector<std::string> up_names(MlpKind kind, const std::string& prefix) {
  if (is_gated(kind)) return {prefix + ".gate", prefix + ".up"};
  return {prefix + ".up"};
}

kernels::Activation activation_of(MlpKind kind) {
  switch (kind) {
    case MlpKind::kGelu:
    case MlpKind::kGeGluExact:
      return kernels::Activation::kGelu;
    case MlpKind::kGeluTanh:
      return kernels::Activation::kGeluTanh;
    case MlpKind::kSwiGlu:
      return kernels::Activation::kSilu;
    case MlpKind::kGeGlu:
      return kernels::Activation::kGeluTanh;
    case MlpKind::kSwiGluClamped:
      return kernels::Activation::kClampedSilu;
  }
  return kernels::Activation::kGelu;
}

Mlp::Mlp(const ParameterTable& table, const ModelConfig& model, int64_t layer)
    : gated_(is_gated(model.mlp)),
      kind_(activation_of(model.mlp)),
      up_(table, up_names(model.mlp, fmt::format("blocks.{}.mlp", layer))),
      down_(table, {fmt::format("blocks.{}.mlp.down", layer)}) {}

MlpSaved Mlp::take_saved(const Context& ctx, Region& region, Region& kept) const {
  if (remakes_in_tiles(ctx)) return MlpSaved();
  MlpSaved saved;
  saved.h = hidden(ctx).take(ctx, region);
  if (in_products(ctx)) saved.a = activation(ctx).take(ctx, kept);
  return saved;
}

/// Returns the hidden arrays of some rows, in the workspace.
MlpSaved Mlp::take_hidden(const Context& ctx, int64_t rows) const {
  MlpSaved saved;
  saved.h = ctx.take(rows * up_.out());
  if (in_products(ctx)) saved.a = ctx.take(rows * down_.in());
  return saved;
}

/// Returns the saved arrays from row `begin` on; null arrays if nothing is saved.
MlpSaved Mlp::rows_of(const Context& ctx, const MlpSaved& saved, int64_t begin) const {
  return {hidden(ctx).from(ctx, saved.h, begin), activation(ctx).from(ctx, saved.a, begin)};
}

SavedRows Mlp::hidden(const Context& ctx) const { return {ctx.compress.mlp_hidden, ctx.rows(), up_.out()}; }
SavedRows Mlp::activation(const Context& ctx) const {
  return {ctx.compress.mlp_hidden, ctx.rows(), down_.in()};
}

/// True if the backend fuses the activation into products, which exists only for the GELU of GPT-2. Otherwise
/// the backward kernel of the activation recomputes its output. Adapters prevent the fusion, because they add
/// to the input of the activation.
bool Mlp::in_products(const Context& ctx) const {
  return ctx.kernels->suited->epilogues && !gated_ && kind_ == kernels::Activation::kGeluTanh &&
         !up_.has_adapter() && !down_.has_adapter();
}

/// If the MLP computes tiles of rows, all tiles are summed over ranks together, after the last one.
void Mlp::forward(const Context& ctx, const MlpSaved& saved, const BranchSum* y, GatheredRows* x) const {
  if (y == nullptr && remakes_in_tiles(ctx)) return;
  const int64_t rows = ctx.rows(),
                most = ctx.remakes.rows > 0 ? ctx.remakes.rows : std::max<int64_t>(rows, 1);
  for (int64_t begin = 0; begin < rows; begin += most) {
    const RegionScope scope(*ctx.workspace);
    const Context tile = ctx.of_rows(begin, std::min(most, rows - begin));
    MlpSaved of_tile = rows_of(ctx, saved, begin);
    if (of_tile.h == nullptr) of_tile = take_hidden(ctx, tile.rows());
    const MlpSaved full{hidden(tile).full(tile, of_tile.h), activation(tile).full(tile, of_tile.a)};
    GatheredRows of_x(most < rows ? advance(x->all(ctx), begin * up_.in(), ctx.type) : nullptr);
    hide(tile, full, most < rows ? &of_x : x);
    const void* const a = y == nullptr ? nullptr : activated(tile, full);
    const auto project = [&](const Context& part, int64_t first, void* to) {
      down_.forward(part, to, y->type(), down_.out(), advance(a, first * down_.in(), ctx.type), part.rows());
    };
    if (y != nullptr && most < rows)
      project(tile, 0, advance(y->all_rows(), begin * down_.out(), y->type()));
    else if (y != nullptr)
      y->compute(tile, project);
    hidden(tile).encode(tile, of_tile.h, full.h);
    activation(tile).encode(tile, of_tile.a, full.a);
  }
  if (y != nullptr && most < rows) y->begin(ctx);
}

/// Computes the hidden arrays from x.
void Mlp::hide(const Context& ctx, const MlpSaved& saved, GatheredRows* x) const {
  x->compute(ctx, [&](const Context& part, int64_t first, const void* rows_of_x) {
    void* const h = advance(saved.h, first * up_.out(), ctx.type);
    if (!in_products(ctx)) return up_.forward(part, h, ctx.type, up_.out(), rows_of_x, part.rows());
    up_.forward_gelu(part, advance(saved.a, first * down_.in(), ctx.type), h, rows_of_x, part.rows());
  });
}

/// Returns the input of the down projection, which may be in the workspace.
const void* Mlp::activated(const Context& ctx, const MlpSaved& saved) const {
  if (in_products(ctx)) return saved.a;
  void* const a = ctx.take(ctx.rows() * down_.in());
  activate(ctx, saved, a);
  return a;
}

void Mlp::activate(const Context& ctx, const MlpSaved& saved, void* a) const {
  kernels::ActivationForward f;
  f.y = a;
  f.h = saved.h;
  f.type = ctx.type;
  f.rows = ctx.rows(), f.f = down_.in();
  f.kind = kind_;
  f.gated = gated_;
  ctx.kernels->activation_forward(f, *ctx.stream);
}

/// Computes dh from da, and overwrites da with a.
void Mlp::activation_backward(const Context& ctx, const MlpSaved& saved, void* dh, void* da) const {
  kernels::ActivationBackward b;
  b.dh = dh;
  b.y = da;
  b.dy = da;
  b.h = saved.h;
  b.type = ctx.type;
  b.rows = ctx.rows(), b.f = down_.in();
  b.kind = kind_;
  b.gated = gated_;
  ctx.kernels->activation_backward(b, *ctx.stream);
}

void* Mlp::take_dh(const Context& ctx, Region& region) const {
  return region.take(ctx.rows() * up_.out() * dtype_bytes(ctx.type));
}

void* Mlp::take_activation(const Context& ctx, const MlpSaved& saved, Region& region) const {
  return saved.a ? saved.a : region.take(ctx.rows() * down_.in() * dtype_bytes(ctx.type));
}

void Mlp::backward_hidden(const Context& ctx, const MlpSaved& saved, void* dh, void* a, GatheredRows* dy,
                          DType dy_type) const {
  RegionScope scope(*ctx.workspace);
  const MlpSaved full{hidden(ctx).decode(ctx, saved.h), nullptr};
  if (in_products(ctx))
    return dy->compute(ctx, [&](const Context& part, int64_t first, const void* rows_of_dy) {
      const int64_t at = first * up_.out();
      down_.backward_input_gelu(part, advance(dh, at, ctx.type), advance(full.h, at, ctx.type), rows_of_dy,
                                dy_type, part.rows());
    });
  dy->compute_input_gradient(ctx, down_, a, dy_type);
  activation_backward(ctx, full, dh, a);
}

void Mlp::backward_input(const Context& ctx, const MlpSaved& saved, void* dh, void* a, const BranchSum& dx,
                         GatheredRows* dy, DType dy_type) const {
  backward_hidden(ctx, saved, dh, a, dy, dy_type);
  dx.compute(ctx, [&](const Context& part, int64_t first, void* to) {
    up_.backward_input(part, to, dx.type(), advance(dh, first * up_.out(), ctx.type), ctx.type, part.rows());
  });
}

void Mlp::backward_in_tiles(const Context& ctx, const MlpSaved& saved, void* dh, void* a, const BranchSum& dx,
                            const void* dy, DType dy_type, const void* x, bool weights) const {
  const RegionScope scope(*ctx.workspace);
  TiledSums sums(ctx, weights ? up_.tiled_sum_bytes(ctx) + down_.tiled_sum_bytes(ctx) : 0);
  while (sums.next()) {
    const RegionScope inner(*ctx.workspace);
    const Context tile = sums.context();
    const int64_t begin = sums.begin(), room = sums.room();
    const void* const tile_x = x == nullptr ? nullptr : advance(x, begin * up_.in(), ctx.type);
    const void* const tile_dy = advance(dy, begin * down_.out(), dy_type);
    const auto at = [&](void* all, int64_t width) {
      return all == nullptr ? ctx.take(room * width) : advance(all, begin * width, ctx.type);
    };
    MlpSaved of_tile = rows_of(ctx, saved, begin);
    if (of_tile.h == nullptr) {
      of_tile.h = ctx.take(room * up_.out());
      if (in_products(ctx)) of_tile.a = at(a, down_.in());
      GatheredRows of_x(tile_x);
      hide(tile, of_tile, &of_x);
    }
    void* const tile_dh = at(dh, up_.out());
    void* const tile_a = of_tile.a != nullptr ? of_tile.a : at(a, down_.in());
    GatheredRows of_dy(tile_dy);
    backward_hidden(tile, of_tile, tile_dh, tile_a, &of_dy, dy_type);
    up_.backward_input(tile, advance(dx.all_rows(), begin * up_.in(), dx.type()), dx.type(), tile_dh,
                       ctx.type, tile.rows());
    if (!weights) continue;
    backward_down_weight(tile, tile_a, tile_dy, dy_type);
    backward_up_weight(tile, tile_dh, tile_x);
  }
  dx.begin(ctx);
}

void Mlp::backward_down_weight(const Context& ctx, void* a, const void* dy, DType dy_type) const {
  RegionScope scope(*ctx.workspace);
  if (in_products(ctx)) a = activation(ctx).decode(ctx, a);
  down_.backward_weight(ctx, dy, dy_type, a, ctx.rows());
}

void Mlp::backward_up_weight(const Context& ctx, const void* dh, const void* x) const {
  up_.backward_weight(ctx, dh, ctx.type, x, ctx.rows());
}

}  // namespace hawser::nn
