#include "engine/nn/magnitude.h"

#include <algorithm>

namespace hawser::nn {
namespace {

constexpr int64_t kMultipliedAtOnce = int64_t{1} << 20;  // elements of B A that are multiplied at once

}  // namespace

Magnitude::Magnitude(const ParameterTable& table, const std::string& prefix, const std::string& module)
    : m_(table.place(prefix + ".adapter_m.weight")),
      a_(table.place(module + ".adapter_a.weight")),
      b_(table.place(prefix + ".adapter_b.weight")) {
  const Parameter& weight = table.at(prefix + ".weight");
  out_ = weight.local_shape[0], in_ = weight.local_shape[1];
  cuts_inputs_ = weight.cut.dim == 1;
  const AdapterOf of = adapter_of(table.adapter(), module);
  rank_ = of.rank, scale_ = static_cast<float>(of.scale);
}

kernels::Magnitudes Magnitude::factors(const Context& ctx, const void* weight) const {
  auto* const squares = ctx.workspace->take_as<float>(out_);
  {
    const RegionScope scope(*ctx.workspace);
    const int64_t most = std::min(out_, std::max<int64_t>(1, kMultipliedAtOnce / in_));
    auto* const product = ctx.workspace->take_as<float>(most * in_);
    for (int64_t row = 0; row < out_; row += most) {
      kernels::Matmul m;
      m.c = product;
      m.a = advance(ctx.weight(b_), row * rank_, ctx.type), m.b = ctx.weight(a_);
      m.a_type = ctx.type, m.b_type = ctx.type;
      m.m = std::min(most, out_ - row), m.n = in_, m.k = rank_;
      m.ldc = in_, m.lda = rank_, m.ldb = in_;
      ctx.matmul(m);
      ctx.kernels->row_squares(
          {squares + row, advance(weight, row * in_, ctx.type), product, ctx.type, scale_, m.m, in_},
          *ctx.stream);
    }
  }
  if (cuts_inputs_) ctx.exchange->sum(ctx, squares, DType::kF32, out_);
  return {ctx.weight(m_), ctx.lookup_type, squares};
}

}  // namespace hawser::nn
