// Experts under precision fp8: rounds the operands of their products (fp8_operands.h). In every other
// precision, products read the stored arrays.
#include "engine/nn/moe/experts.h"

namespace hawser::nn {

/// Returns the weights of a stack as products read them. The forward notes their maximum.
const void* Experts::factor(const Context& ctx, const Stack& stack, bool notes) const {
  const void* const weight = ctx.weight(stack.place);
  if (!ctx.fp8.on()) return weight;
  const bool is_down = stack.parameter == down_.parameter;  // [C, F] of each expert; the others: [F, C]
  const int64_t rows = experts_ * (is_down ? width_ : features_), columns = is_down ? features_ : width_;
  void* const y = ctx.take(rows * columns);
  round_operand(ctx, y, columns,
                {weight, ctx.type, rows, columns, columns, stack.operand(Fp8Role::kWeight),
                 kernels::Fp8Tile::k128x128, experts_},
                DType::kE4m3Block, notes);
  return y;
}

/// Returns x[rows, n], which a stack multiplies, as products read it.
const void* Experts::input(const Context& ctx, const ExpertRows& rows, const void* x, int64_t n,
                           const Stack& stack, Fp8Sum sum) const {
  if (!ctx.fp8.on()) return x;
  void* const y = ctx.take(rows.room * n);
  round_operand(
      ctx, y, n,
      {x, ctx.type, rows.count, n, n, stack.operand(Fp8Role::kInput), fp8_tile(sum), experts_, rows.offsets},
      DType::kE4m3Block, sum == Fp8Sum::kColumns);
  return y;
}

/// Returns dy[rows, C] as products read it, and sets its type.
const void* Experts::down_gradient(const Context& ctx, const ExpertRows& rows, const void* dy, DType* type,
                                   Fp8Sum sum) const {
  if (!ctx.fp8.on()) return dy;
  void* const y = ctx.take(rows.room * width_);
  round_operand(ctx, y, width_,
                {dy, *type, rows.count, width_, width_, down_.operand(Fp8Role::kGradient), fp8_tile(sum),
                 experts_, rows.offsets},
                DType::kE5m2Block, sum == Fp8Sum::kColumns);
  *type = ctx.type;
  return y;
}

/// Returns dh[rows, F or 2F] as products read it: the columns of each projection have scales of their own.
const void* Experts::up_gradient(const Context& ctx, const ExpertRows& rows, const void* dh,
                                 Fp8Sum sum) const {
  if (!ctx.fp8.on()) return dh;
  void* const y = ctx.take(rows.room * out_);
  int64_t column = 0;
  for (const Stack* const stack : {&gate_, &up_}) {
    if (!stack->place) continue;
    round_operand(ctx, advance(y, column, ctx.type), out_,
                  {advance(dh, column, ctx.type), ctx.type, rows.count, features_, out_,
                   stack->operand(Fp8Role::kGradient), fp8_tile(sum), experts_, rows.offsets},
                  DType::kE5m2Block, sum == Fp8Sum::kColumns);
    column += features_;
  }
  return y;
}

}  // namespace hawser::nn
