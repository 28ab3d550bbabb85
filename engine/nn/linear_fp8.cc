// Linear under precision fp8: the rounding of its operands (fp8_operands.h). Biases, their gradients,
// adapters and magnitudes read unrounded numbers.
#include <algorithm>

#include "engine/nn/linear.h"

namespace hawser::nn {
namespace {

const int32_t* end_of(const Fp8Operand& operand) {
  return operand.offsets == nullptr ? nullptr : operand.offsets + operand.groups;
}

/// Returns where the maximum is from which the scale of a complete operand follows, possibly in the
/// workspace. Null in a dry run with a history.
const float* maximum_of(const Context& ctx, const Fp8Operand& operand, bool notes) {
  const bool earlier = ctx.fp8.has_history(), noted = notes && ctx.fp8.noted != nullptr;
  const float* const of_steps = ctx.fp8.maxima != nullptr ? ctx.fp8.maxima + operand.index : nullptr;
  if (earlier && !notes) return of_steps;
  auto* const own = ctx.workspace->take_as<float>(1);
  // Computed even if an earlier maximum sets the scale and none is noted, so that every call does the work
  // that is planned.
  ctx.kernels->fp8_maximum({noted ? ctx.fp8.noted + operand.index : own, operand.x, operand.type,
                            operand.rows, operand.n, operand.stride, noted, end_of(operand)},
                           *ctx.stream);
  return earlier ? of_steps : own;
}

}  // namespace

void round_operand(const Context& ctx, void* y, int64_t y_stride, const Fp8Operand& operand, DType format,
                   bool notes) {
  kernels::Fp8Round r{static_cast<uint16_t*>(y),
                      operand.x,
                      operand.type,
                      format,
                      operand.rows,
                      operand.n,
                      y_stride,
                      operand.stride};
  r.margin = ctx.fp8.margin, r.end = end_of(operand);
  const RegionScope scope(*ctx.workspace);
  if (ctx.fp8.scaling == Fp8Scaling::kBlocks)
    r.tile = operand.tile, r.groups = operand.groups, r.offsets = operand.offsets;
  else
    r.maximum = maximum_of(ctx, operand, notes);
  ctx.kernels->fp8_round(r, *ctx.stream);
}

void add_part(const Context& ctx, const Fp8Operand& operand, DType format, bool notes, int64_t size,
              kernels::Fp8Factor* factor) {
  HWS_CHECK(factor->parts < kernels::Fp8Factor::kMost);
  factor->type = format;
  factor->part[factor->parts++] = {size, maximum_of(ctx, operand, notes)};
}

/// True if a weight has a gradient.
bool Linear::trains(const Context& ctx) const {
  return std::any_of(stacks_.begin(), stacks_.end(),
                     [&](const Columns& stack) { return ctx.gradient(stack.weight) != nullptr; });
}

/// Returns x[rows, in] as products read it: x itself, which a backend may round in the product, or rounded in
/// the workspace.
const void* Linear::input(const Context& ctx, const void* x, int64_t rows, Fp8Sum sum,
                          kernels::Fp8Factor* factor) const {
  if (!ctx.fp8.on()) return x;
  const Fp8Operand operand{
      x, ctx.type, rows, in_, in_, parts_.front().operand(Fp8Role::kInput), fp8_tile(sum)};
  const bool notes = sum == Fp8Sum::kColumns;
  if (ctx.fp8.in_products(*ctx.kernels)) {
    add_part(ctx, operand, DType::kE4m3Block, notes, in_, factor);
    return x;
  }
  void* const y = ctx.take(rows * in_);
  round_operand(ctx, y, in_, operand, DType::kE4m3Block, notes);
  return y;
}

/// Returns the weight of a part or of a stack as products read it. `weight` is its result of weight().
const void* Linear::factor(const Context& ctx, const Columns& stack, const void* weight, bool notes,
                           kernels::Fp8Factor* factor) const {
  if (!ctx.fp8.on()) return weight;
  const bool in_products = ctx.fp8.in_products(*ctx.kernels);
  void* const y = in_products ? nullptr : ctx.take(stack.out * in_);
  for (const Columns& part : parts_) {
    if (!holds(stack, part)) continue;
    const int64_t at = (part.begin - stack.begin) * in_;
    const Fp8Operand operand{advance(weight, at, ctx.type), ctx.type, part.out, in_, in_,
                             part.operand(Fp8Role::kWeight)};
    if (in_products)
      add_part(ctx, operand, DType::kE4m3Block, notes, part.out, factor);
    else
      round_operand(ctx, advance(y, at, ctx.type), in_, operand, DType::kE4m3Block, notes);
  }
  return in_products ? weight : y;
}

Fp8Operand Linear::gradient_operand(const Columns& part, const void* dy, DType type, int64_t rows,
                                    Fp8Sum sum) const {
  return {advance(dy, part.begin, type),    type,         rows, part.out, out_,
          part.operand(Fp8Role::kGradient), fp8_tile(sum)};
}

/// Returns dy[rows, out] as products read it, and sets its type. A product that rounds it itself needs
/// gradient_factor.
const void* Linear::gradient(const Context& ctx, const void* dy, DType* type, int64_t rows,
                             Fp8Sum sum) const {
  if (!ctx.fp8.on() || ctx.fp8.in_products(*ctx.kernels)) return dy;
  void* const y = ctx.take(rows * out_);
  for (const Columns& part : parts_)
    round_operand(ctx, advance(y, part.begin, ctx.type), out_, gradient_operand(part, dy, *type, rows, sum),
                  DType::kE5m2Block, sum == Fp8Sum::kColumns);
  *type = ctx.type;
  return y;
}

/// Returns how a product rounds the columns of dy[rows, out] that belong to a stack.
kernels::Fp8Factor Linear::gradient_factor(const Context& ctx, const Columns& stack, const void* dy,
                                           DType type, int64_t rows, Fp8Sum sum) const {
  kernels::Fp8Factor factor;
  if (!ctx.fp8.in_products(*ctx.kernels)) return factor;
  for (const Columns& part : parts_)
    if (holds(stack, part))
      add_part(ctx, gradient_operand(part, dy, type, rows, sum), DType::kE5m2Block, sum == Fp8Sum::kColumns,
               part.out, &factor);
  return factor;
}

}  // namespace hawser::nn
