#include "engine/nn/adapter.h"

#include <algorithm>

#include "engine/nn/tiled_sums.h"

namespace hawser::nn {
namespace {

constexpr int64_t kAddedAtOnce = int64_t{1} << 20;  // most elements of a term that is added at once

/// Returns the number of input features on lower ranks, each of which has `in` of them.
int64_t features_before(const Context& ctx, bool cuts_inputs, int64_t in) {
  return cuts_inputs ? ctx.exchange->rank() * in : 0;
}

/// A mask block covers four features and may begin on a lower rank, so a gap of up to three features precedes
/// each row of a rank's share. All ranks take memory for the widest gap of any, because they share one plan.
struct GappedRows {
  int64_t gap, width;
  float* memory;

  GappedRows(const Context& ctx, bool cuts_inputs, int64_t in, int64_t rows)
      : gap(features_before(ctx, cuts_inputs, in) % 4), width(gap + in) {
    int64_t widest = 0;
    for (int64_t rank = 0; cuts_inputs && rank < ctx.exchange->ranks(); ++rank)
      widest = std::max(widest, rank * in % 4);
    memory = ctx.workspace->take_as<float>(rows * (widest + in));
  }
  float* features() const { return memory + gap; }
};

}  // namespace

Adapter::Adapter(const ParameterTable& table, const std::string& module, int64_t in)
    : a_(table.place(module + ".adapter_a.weight")),
      in_(in),
      layer_(layer_of(module)),
      site_(adapter_site(module)),
      dropout_(table.adapter().dropout) {
  const AdapterOf of = adapter_of(table.adapter(), module);
  rank_ = of.rank, scale_ = static_cast<float>(of.scale);
  cuts_inputs_ = table.at(module + ".adapter_a.weight").cut.dim == 1;
}

/// Returns the dropout for the rows of a branch: all rows, or those of Context::only_rows.
kernels::Dropout Adapter::dropout(const Context& ctx) const {
  kernels::Dropout d = ctx.dropout(dropout_, layer_, site_);
  d.first_row = ctx.first_row;
  d.first_block = features_before(ctx, cuts_inputs_, in_) / 4;
  return d;
}

/// Returns the input of A: x, or x after dropout, in f32.
Adapter::Rows Adapter::dropped(const Context& ctx, const void* x, int64_t rows) const {
  kernels::ResidualForward drop;
  drop.dropout = dropout(ctx);
  if (drop.dropout.p == 0) return {x, ctx.type, in_};
  const GappedRows wide(ctx, cuts_inputs_, in_, rows);
  kernels::Convert copy;
  copy.y = wide.features(), copy.y_stride = wide.width;
  copy.x = x, copy.x_stride = in_;
  copy.x_type = ctx.type;
  copy.rows = rows, copy.n = in_;
  ctx.kernels->convert(copy, *ctx.stream);
  drop.y = wide.memory;
  drop.x = wide.memory;
  drop.rows = rows, drop.d = wide.width, drop.seq = ctx.seq;
  ctx.kernels->residual_forward(drop, *ctx.stream);
  return {wide.features(), DType::kF32, wide.width};
}

/// Returns wide[rows, rank] times the scale, in the activation type.
const void* Adapter::scaled(const Context& ctx, float* wide, int64_t rows) const {
  kernels::Convert scale;
  scale.y = ctx.type == DType::kF32 ? wide : ctx.take(rows * rank_);
  scale.x = wide;
  scale.y_type = ctx.type;
  scale.n = rows * rank_;
  scale.scale = scale_;
  ctx.kernels->convert(scale, *ctx.stream);
  return scale.y;
}

/// Returns s u.
const void* Adapter::compress(const Context& ctx, const Rows& x, int64_t rows) const {
  auto* const wide = ctx.workspace->take_as<float>(rows * rank_);
  kernels::Matmul m;
  m.c = wide;
  m.a = x.data, m.b = ctx.weight(a_);
  m.a_type = x.type, m.b_type = ctx.type;
  m.m = rows, m.n = rank_, m.k = in_;
  m.ldc = rank_, m.lda = x.stride, m.ldb = in_;
  m.b_transposed = true;
  ctx.matmul(m);
  return scaled(ctx, wide, rows);
}

/// Returns v.
const void* Adapter::expand(const Context& ctx, const void* dy, DType dy_type, int64_t stride,
                            int64_t rows) const {
  auto* const wide = ctx.workspace->take_as<float>(rows * rank_);
  for (const Part& part : parts_) {
    kernels::Matmul m;
    m.c = wide;
    m.a = advance(dy, part.begin, dy_type), m.b = ctx.weight(part.b);
    m.a_type = dy_type, m.b_type = ctx.type;
    m.m = rows, m.n = rank_, m.k = part.out;
    m.ldc = rank_, m.lda = stride, m.ldb = rank_;
    m.accumulate = &part != parts_.data();
    ctx.matmul(m);
  }
  return scaled(ctx, wide, rows);
}

/// Adds the product m to y[m.m, m.n]. All of m except its output must be set.
void Adapter::add_product(const Context& ctx, void* y, DType y_type, int64_t ldy, kernels::Matmul m) const {
  if (y_type == DType::kF32) {
    m.c = y, m.ldc = ldy;
    m.accumulate = true;
    return ctx.matmul(m);
  }
  const RegionScope scope(*ctx.workspace);
  const int64_t rows = m.m, most = std::min(rows, std::max<int64_t>(1, kAddedAtOnce / m.n));
  auto* const sum = ctx.workspace->take_as<float>(most * m.n);
  m.c = sum, m.ldc = m.n;
  const void* const a = m.a;
  for (int64_t row = 0; row < rows; row += most) {
    m.m = std::min(most, rows - row);
    m.a = advance(a, row * m.lda, m.a_type);
    ctx.matmul(m);
    kernels::Convert add;
    add.y = advance(y, row * ldy, y_type), add.y_stride = ldy;
    add.x = sum, add.x_stride = m.n;
    add.y_type = y_type;
    add.rows = m.m, add.n = m.n;
    add.accumulate = true;
    ctx.kernels->convert(add, *ctx.stream);
  }
}

void Adapter::forward(const Context& ctx, void* y, DType y_type, int64_t ldy, int64_t first, int64_t columns,
                      const void* x, int64_t rows) const {
  const auto is_wanted = [&](const Part& part) {
    return part.begin >= first && part.begin < first + columns;
  };
  if (std::none_of(parts_.begin(), parts_.end(), is_wanted)) return;
  const RegionScope scope(*ctx.workspace);
  const void* const u = compress(ctx, dropped(ctx, x, rows), rows);
  for (const Part& part : parts_) {
    if (!is_wanted(part)) continue;
    kernels::Matmul m;
    m.a = u, m.b = ctx.weight(part.b);
    m.a_type = ctx.type, m.b_type = ctx.type;
    m.m = rows, m.n = part.out, m.k = rank_;
    m.lda = rank_, m.ldb = rank_;
    m.b_transposed = true;
    add_product(ctx, advance(y, part.begin - first, y_type), y_type, ldy, m);
  }
}

void Adapter::backward_input(const Context& ctx, void* dx, DType dx_type, const void* dy, DType dy_type,
                             int64_t stride, int64_t rows) const {
  const RegionScope scope(*ctx.workspace);
  kernels::Matmul m;
  m.a = expand(ctx, dy, dy_type, stride, rows), m.b = ctx.weight(a_);
  m.a_type = ctx.type, m.b_type = ctx.type;
  m.m = rows, m.n = in_, m.k = rank_;
  m.lda = rank_, m.ldb = in_;
  kernels::ResidualBackward drop;
  drop.dropout = dropout(ctx);
  if (drop.dropout.p == 0) return add_product(ctx, dx, dx_type, in_, m);
  const GappedRows part(ctx, cuts_inputs_, in_, rows);
  m.c = part.features(), m.ldc = part.width;
  ctx.matmul(m);
  drop.dbranch = part.memory, drop.dy = part.memory;
  drop.rows = rows, drop.d = part.width, drop.seq = ctx.seq;
  ctx.kernels->residual_backward(drop, *ctx.stream);
  kernels::Convert add;
  add.y = dx, add.y_stride = in_;
  add.x = part.features(), add.x_stride = part.width;
  add.y_type = dx_type;
  add.rows = rows, add.n = in_;
  add.accumulate = true;
  ctx.kernels->convert(add, *ctx.stream);
}

void Adapter::backward_weight(const Context& ctx, const void* dy, DType dy_type, int64_t stride,
                              const void* x, int64_t rows) const {
  const RegionScope scope(*ctx.workspace);
  const Rows in = dropped(ctx, x, rows);
  const auto add = [&](Place to, kernels::Matmul m) {
    m.k = rows;
    m.ldc = m.n;
    m.a_transposed = true;
    ctx.sum_rows(m, to);
  };
  {
    const RegionScope of_u(*ctx.workspace);
    kernels::Matmul m;
    m.b = compress(ctx, in, rows), m.b_type = ctx.type;
    m.n = rank_, m.ldb = rank_;
    for (const Part& part : parts_) {
      m.a = advance(dy, part.begin, dy_type), m.a_type = dy_type;
      m.m = part.out, m.lda = stride;
      add(part.b, m);
    }
  }
  kernels::Matmul m;
  m.a = expand(ctx, dy, dy_type, stride, rows), m.a_type = ctx.type;
  m.b = in.data, m.b_type = in.type;
  m.m = rank_, m.n = in_;
  m.lda = rank_, m.ldb = in.stride;
  add(a_, m);
}

int64_t Adapter::tiled_sum_bytes(const Context& ctx) const {
  const auto bytes = [&](Place p, int64_t elements) {
    return ctx.gradient(p) != nullptr ? TiledSums::sum_bytes(ctx, elements, 0) : 0;
  };
  int64_t sum = bytes(a_, rank_ * in_);
  for (const Part& part : parts_) sum += bytes(part.b, part.out * rank_);
  return sum;
}

}  // namespace hawser::nn
