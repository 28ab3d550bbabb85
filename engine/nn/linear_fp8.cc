// Linear under precision fp8: the rounding of its operands (fp8_operands.h). Biases, their gradients,
// adapters and magnitudes read unrounded numbers.
#include <algorithm>

#include "engine/nn/linear.h"

namespace hawser::nn {

void round_operand(const Context& ctx, void* y, int64_t y_stride, const Fp8Operand& operand, DType format,
                   bool notes) {
  const int32_t* const end = operand.offsets == nullptr ? nullptr : operand.offsets + operand.groups;
  kernels::Fp8Round r{static_cast<uint16_t*>(y),
                      operand.x,
                      operand.type,
                      format,
                      operand.rows,
                      operand.n,
                      y_stride,
                      operand.stride};
  r.margin = ctx.fp8.margin, r.end = end;
  if (ctx.fp8.scaling == Fp8Scaling::kBlocks) {
    r.tile = operand.tile, r.groups = operand.groups, r.offsets = operand.offsets;
    return ctx.kernels->fp8_round(r, *ctx.stream);
  }
  const RegionScope scope(*ctx.workspace);
  auto* const own = ctx.workspace->take_as<float>(1);
  // Computed even if an earlier maximum sets the scale and none is noted, so that every call does the work
  // that is planned.
  ctx.kernels->fp8_maximum(
      {own, operand.x, operand.type, operand.rows, operand.n, operand.stride, false, end}, *ctx.stream);
  if (notes && ctx.fp8.noted != nullptr) {
    float& noted = ctx.fp8.noted[operand.index];
    noted = std::max(noted, *own);
  }
  r.maximum = ctx.fp8.maxima != nullptr ? ctx.fp8.maxima + operand.index : own;
  ctx.kernels->fp8_round(r, *ctx.stream);
}

/// True if a weight has a gradient.
bool Linear::trains(const Context& ctx) const {
  return std::any_of(stacks_.begin(), stacks_.end(),
                     [&](const Columns& stack) { return ctx.gradient(stack.weight) != nullptr; });
}

/// Returns x[rows, in] as products read it: x itself, or rounded in the workspace.
const void* Linear::input(const Context& ctx, const void* x, int64_t rows, Fp8Sum sum) const {
  if (!ctx.fp8.on()) return x;
  void* const y = ctx.take(rows * in_);
  round_operand(ctx, y, in_,
                {x, ctx.type, rows, in_, in_, parts_.front().operand(Fp8Role::kInput), fp8_tile(sum)},
                DType::kE4m3Block, sum == Fp8Sum::kColumns);
  return y;
}

/// Returns the weight of a part or of a stack as products read it. `weight` is its result of weight().
const void* Linear::factor(const Context& ctx, const Columns& stack, const void* weight, bool notes) const {
  if (!ctx.fp8.on()) return weight;
  void* const y = ctx.take(stack.out * in_);
  for (const Columns& part : parts_) {
    if (part.begin < stack.begin || part.begin >= stack.begin + stack.out) continue;
    const int64_t at = (part.begin - stack.begin) * in_;
    round_operand(
        ctx, advance(y, at, ctx.type), in_,
        {advance(weight, at, ctx.type), ctx.type, part.out, in_, in_, part.operand(Fp8Role::kWeight)},
        DType::kE4m3Block, notes);
  }
  return y;
}

/// Returns dy[rows, out] as products read it, and sets its type.
const void* Linear::gradient(const Context& ctx, const void* dy, DType* type, int64_t rows,
                             Fp8Sum sum) const {
  if (!ctx.fp8.on()) return dy;
  void* const y = ctx.take(rows * out_);
  for (const Columns& part : parts_)
    round_operand(ctx, advance(y, part.begin, ctx.type), out_,
                  {advance(dy, part.begin, *type), *type, rows, part.out, out_,
                   part.operand(Fp8Role::kGradient), fp8_tile(sum)},
                  DType::kE5m2Block, sum == Fp8Sum::kColumns);
  *type = ctx.type;
  return y;
}

}  // namespace hawser::nn
