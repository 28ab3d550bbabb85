// Linear with magnitudes: columns of a linear whose adapter has magnitudes (magnitude.h). Forward scales z,
// backward scales dy.
#include <algorithm>

#include "engine/nn/linear.h"

namespace hawser::nn {

bool Linear::has_magnitudes() const {
  return std::any_of(parts_.begin(), parts_.end(), [](const Columns& part) { return !!part.magnitude; });
}

/// Computes z [rows, part.out] in f32, from W as products read it.
void Linear::unscaled_columns(const Context& ctx, const Columns& part, float* z, int64_t ldz,
                              const void* weight, const void* x, int64_t rows) const {
  kernels::Matmul m;
  m.c = z, m.ldc = ldz;
  multiply(ctx, part, m, weight, x, rows);
  add_adapters_to(ctx, part, z, DType::kF32, ldz, x, rows);
}

/// z includes the bias, so a factor of exactly 1 leaves the result of the linear unchanged.
void Linear::scaled_columns(const Context& ctx, const Columns& part, void* y, DType y_type, int64_t ldy,
                            const void* x, int64_t rows) const {
  const RegionScope scope(*ctx.workspace);
  const void* const w = weight(ctx, part);
  const kernels::Magnitudes by = part.magnitude.factors(ctx, w);
  const bool in_place = y_type == DType::kF32;
  const int64_t ldz = in_place ? ldy : part.out;
  float* const z = in_place ? static_cast<float*>(y) : ctx.workspace->take_as<float>(rows * ldz);
  unscaled_columns(ctx, part, z, ldz, w, x, rows);
  ctx.kernels->scale_columns({y, z, y_type, DType::kF32, by, bias(ctx, part), rows, part.out, ldy, ldz},
                             *ctx.stream);
}

/// Returns dz: the columns of dy times their factors, in the workspace; dy itself if there are no magnitudes.
/// If `x`, the forward's input, is not null, also computes the gradients of magnitudes, for which it
/// recomputes z without the bias.
const void* Linear::scaled_gradient(const Context& ctx, const void* dy, DType dy_type, const void* x,
                                    int64_t rows) const {
  if (!has_magnitudes()) return dy;
  void* const dz = ctx.workspace->take(rows * out_ * dtype_bytes(dy_type));
  for (const Columns& part : parts_) {
    void* const to = advance(dz, part.begin, dy_type);
    const void* const from = advance(dy, part.begin, dy_type);
    if (!part.magnitude) {
      ctx.kernels->convert({to, from, dy_type, dy_type, part.out, false, rows, out_, out_}, *ctx.stream);
      continue;
    }
    const RegionScope scope(*ctx.workspace);
    const void* const w = weight(ctx, part);
    const kernels::Magnitudes by = part.magnitude.factors(ctx, w);
    ctx.kernels->scale_columns({to, from, dy_type, dy_type, by, nullptr, rows, part.out, out_, out_},
                               *ctx.stream);
    float* const dm = part.magnitude.gradient(ctx);
    if (x == nullptr || dm == nullptr) continue;
    auto* const z = ctx.workspace->take_as<float>(rows * part.out);
    Columns without_bias = part;
    without_bias.bias = {};
    unscaled_columns(ctx, without_bias, z, part.out, w, x, rows);
    ctx.kernels->column_dot({dm, from, dy_type, z, by, rows, part.out, out_, part.out, ctx.accumulate},
                            *ctx.stream);
  }
  return dz;
}

}  // namespace hawser::nn
