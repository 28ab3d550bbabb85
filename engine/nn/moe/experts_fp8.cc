// Experts under precision fp8: rounds the operands of their products (fp8_operands.h). In every other
// precision, products read the stored arrays.
#include "engine/nn/moe/experts.h"

namespace hawser::nn {

/// Returns the weights of a stack as products read them. The forward notes their maximum.
const void* Experts::factor(const Context& ctx, const Stack& stack, bool notes) const {
  const void* const weight = ctx.weight(stack.place);
  if (!ctx.fp8.on) return weight;
  const int64_t rows = experts_ * width_;
  void* const y = ctx.take(rows * features_);
  round_operand(ctx, y, features_,
                {weight, ctx.type, rows, features_, features_, stack.operand(Fp8Role::kWeight)},
                DType::kE4m3Block, notes);
  return y;
}

/// Returns x[rows, n], which a stack multiplies, as products read it. The forward notes its maximum.
const void* Experts::input(const Context& ctx, const ExpertRows& rows, const void* x, int64_t n,
                           const Stack& stack, bool notes) const {
  if (!ctx.fp8.on) return x;
  void* const y = ctx.take(rows.room * n);
  round_operand(ctx, y, n,
                {x, ctx.type, rows.count, n, n, stack.operand(Fp8Role::kInput), rows.offsets + experts_},
                DType::kE4m3Block, notes);
  return y;
}

/// Returns dy[rows, C] as products read it, and sets its type. The input pass notes its maximum.
const void* Experts::down_gradient(const Context& ctx, const ExpertRows& rows, const void* dy, DType* type,
                                   bool notes) const {
  if (!ctx.fp8.on) return dy;
  void* const y = ctx.take(rows.room * width_);
  round_operand(
      ctx, y, width_,
      {dy, *type, rows.count, width_, width_, down_.operand(Fp8Role::kGradient), rows.offsets + experts_},
      DType::kE5m2Block, notes);
  *type = ctx.type;
  return y;
}

/// Returns dh[rows, F or 2F] as products read it: the columns of each projection have a scale of their own.
/// The input pass notes their maximum.
const void* Experts::up_gradient(const Context& ctx, const ExpertRows& rows, const void* dh,
                                 bool notes) const {
  if (!ctx.fp8.on) return dh;
  void* const y = ctx.take(rows.room * out_);
  int64_t column = 0;
  for (const Stack* const stack : {&gate_, &up_}) {
    if (!stack->place) continue;
    round_operand(ctx, advance(y, column, ctx.type), out_,
                  {advance(dh, column, ctx.type), ctx.type, rows.count, features_, out_,
                   stack->operand(Fp8Role::kGradient), rows.offsets + experts_},
                  DType::kE5m2Block, notes);
    column += features_;
  }
  return y;
}

}  // namespace hawser::nn
