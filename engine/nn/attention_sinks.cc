#include "engine/nn/attention_sinks.h"

#include <fmt/format.h>

#include "engine/nn/context.h"

namespace hawser::nn {
namespace {

kernels::SinkRows rows_of(const kernels::AttentionShape& s, DType type, const float* sinks) {
  kernels::SinkRows rows;
  rows.type = type;
  rows.batch = s.batch, rows.seq = s.q_rows(), rows.heads = s.heads;
  rows.value_dim = s.v_dim(), rows.o_stride = s.o_stride;
  rows.sinks = sinks;
  return rows;
}

}  // namespace

AttentionSinks::AttentionSinks(const ParameterTable& table, int64_t layer) {
  const std::string name = fmt::format("blocks.{}.attention.sinks", layer);
  place_ = table.place(name);
  if (place_) heads_ = table.at(name).local_shape[0];
}

/// Returns the number of the first head of `s` among the local heads.
int64_t AttentionSinks::first_head(const Context& ctx, const kernels::AttentionShape& s) const {
  return s.first_head - ctx.exchange->rank() * heads_;
}

void AttentionSinks::join(const Context& ctx, const kernels::AttentionShape& s, void* o, DType o_type,
                          float* lse) const {
  if (!place_) return;
  const RegionScope scope(*ctx.workspace);
  const float* const sinks = ctx.lookup_f32(place_, heads_);
  ctx.kernels->sink_forward({rows_of(s, o_type, sinks + first_head(ctx, s)), o, lse}, *ctx.stream);
}

void AttentionSinks::backward(const Context& ctx, const kernels::AttentionShape& s, const void* o,
                              const float* lse, const void* dout) const {
  if (ctx.gradient_place(place_).data == nullptr) return;
  const RegionScope scope(*ctx.workspace);
  const float* const sinks = ctx.lookup_f32(place_, heads_);
  kernels::SinkBackward b;
  b.first = first_head(ctx, s), b.columns = heads_;
  b.s = rows_of(s, s.type, sinks + b.first);
  b.dout = dout, b.o = o, b.lse = lse;
  kernels::ColumnSum sum;
  sum.rows = s.batch * s.q_rows(), sum.n = sum.stride = heads_;
  sum.dy = b.terms = ctx.workspace->take_as<float>(sum.rows * sum.n);
  ctx.kernels->sink_backward(b, *ctx.stream);
  ctx.sum_rows(sum, place_);
}

}  // namespace hawser::nn
