#include "engine/nn/head.h"

#include <algorithm>

#include "engine/nn/ahead_loss.h"
#include "engine/nn/gathered_rows.h"
#include "engine/nn/lm_head_loss.h"
#include "engine/nn/score_head.h"

namespace hawser::nn {

Head::Head(const ParameterTable& table, const ModelConfig& model, const std::string& weight,
           const std::string& norm)
    : model_(model), norm_(table, model, norm), weight_(table.place(weight)) {}

int64_t Head::rows_of_chunk(const Context& ctx, int64_t begin) const {
  return std::min(chunk_rows(ctx), ctx.rows() - begin);
}

float* Head::take_logits(const Context& ctx, int64_t rows) const {
  return ctx.workspace->take_as<float>(std::min(chunk_rows(ctx), rows) * model_.outputs());
}

Head::Rows Head::take_rows(const Context& ctx, int64_t begin, int64_t count) const {
  return {begin, count, ctx.take(count * model_.width), norm_.take_saved(*ctx.workspace, count)};
}

/// x has all rows, even if it is a sum.
void Head::normalise(const Context& ctx, const Rows& rows, const StreamInput& x) const {
  const int64_t first = rows.begin * model_.width;
  if (!x.is_sum())
    return norm_.forward(ctx, rows.saved, rows.n, ctx.type, advance(x.x, first, ctx.residual_type),
                         rows.count);
  kernels::ResidualForward part = x.sum;
  part.y = advance(part.y, first, part.type), part.x = advance(part.x, first, part.type);
  part.branch = advance(part.branch, first, part.branch_type);
  part.rows = rows.count;
  norm_.forward(ctx, rows.saved, rows.n, ctx.type, part);
}

void Head::normalise_backward(const Context& ctx, const Rows& rows, float* dx, const void* dn,
                              const void* x) const {
  const int64_t width = model_.width;
  norm_.backward(ctx, rows.saved, dx + rows.begin * width, DType::kF32, width, dn, ctx.type, width,
                 advance(x, rows.begin * width, ctx.residual_type), ctx.residual_type,
                 {rows.count, 1, width});
}

const void* Head::whole_rows(const Context& ctx, const void* x) const {
  return GatheredRows(ctx, x, ctx.residual_type, model_.width).all(ctx);
}

/// If there are other ranks, they need the sum of this rank's rows. The masks of dropout depend on the row's
/// number, so a sum with dropout is not divided into chunks.
StreamInput Head::whole_rows(const Context& ctx, const StreamInput& x) const {
  if (x.is_sum() && ctx.exchange->ranks() == 1 && x.sum.dropout.p == 0) return x;
  if (x.is_sum()) ctx.kernels->residual_forward(x.sum, *ctx.stream);
  return whole_rows(ctx, x.x);
}

void Head::keep_own_rows(const Context& ctx, float* own, const float* whole) const {
  if (own == whole) return;
  const LocalRows rows = ctx.own_rows();
  ctx.kernels->convert(
      {own, whole + rows.first * model_.width, DType::kF32, DType::kF32, rows.count * model_.width},
      *ctx.stream);
}

std::unique_ptr<const Head> make_head(const ParameterTable& table, const ModelConfig& model,
                                      const ModelConfig& local, const MoeTraining& moe) {
  if (model.has_score()) return std::make_unique<ScoreHead>(table, model);
  if (model.ahead > 0) return std::make_unique<AheadLoss>(table, model, local, moe);
  return std::make_unique<LmHeadLoss>(table, model);
}

}  // namespace hawser::nn
