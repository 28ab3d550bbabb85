#include "engine/nn/score_head.h"

namespace hawser::nn {
namespace {

constexpr int64_t kChunkRows = 512;

/// Returns the type of the gradient of scores, an operand of two products; its rows start at the same
/// boundaries as those of logits.
DType score_gradient_type(const Context& ctx) {
  return ctx.kernels->suited->narrow_logits ? ctx.type : DType::kF32;
}

}  // namespace

ScoreHead::ScoreHead(const ParameterTable& table, const ModelConfig& model)
    : Head(table, model, kScoreWeight) {}

int64_t ScoreHead::chunk_rows(const Context&) const { return kChunkRows; }

void ScoreHead::score(const Context& ctx, const Rows& rows, float* scores, const StreamInput& x) const {
  normalise(ctx, rows, x);
  kernels::Matmul m;  // scores[rows] = n w
  m.c = scores;
  m.a = rows.n;
  m.b = ctx.weight(weight_);
  m.a_type = ctx.type, m.b_type = ctx.weight_type(weight_);
  m.m = rows.count, m.n = 1, m.k = model_.width;
  m.ldc = 1, m.lda = model_.width, m.ldb = model_.width;
  m.b_transposed = true;
  ctx.matmul(m);
}

void ScoreHead::negate(const Context& ctx, float* values, int64_t count) const {
  kernels::Convert c{values, values, DType::kF32, DType::kF32, count};
  c.scale = -1;
  ctx.kernels->convert(c, *ctx.stream);
}

void ScoreHead::forward(const Context& ctx, float* losses, const StreamInput& input) const {
  RegionScope of_rows(*ctx.workspace);
  all_scores(ctx, losses, whole_rows(ctx, input), ctx.rows());
  negate(ctx, losses, ctx.rows());
}

void ScoreHead::logits(const Context& ctx, float* scores, const void* x, int64_t rows) const {
  all_scores(ctx, scores, x, rows);
}

void ScoreHead::all_scores(const Context& ctx, float* scores, const StreamInput& x, int64_t rows) const {
  for (int64_t begin = 0; begin < rows; begin += kChunkRows) {
    RegionScope scope(*ctx.workspace);
    score(ctx, take_rows(ctx, begin, std::min(kChunkRows, rows - begin)), scores + begin, x);
  }
}

void ScoreHead::forward_backward(const Context& ctx, float* losses, float* dx, const StreamInput& input,
                                 const float* /*grad_scale*/) const {
  const int64_t width = model_.width;
  RegionScope of_rows(*ctx.workspace);
  const StreamInput x = whole_rows(ctx, input);
  float* const own_dx = dx;
  dx = ctx.exchange->whole_rows(ctx, dx, width);
  Context chunk_ctx = ctx;
  for (int64_t begin = 0; begin < ctx.rows(); begin += kChunkRows) {
    RegionScope scope(*ctx.workspace);
    const Rows rows = take_rows(ctx, begin, rows_of_chunk(ctx, begin));
    score(ctx, rows, losses + begin, x);
    chunk_ctx.accumulate = ctx.accumulate || begin > 0;

    const DType type = score_gradient_type(ctx);
    const int64_t stride = 128 / dtype_bytes(type);  // tensor cores need aligned operands
    void* const ds = ctx.workspace->take(rows.count * 128);
    kernels::Convert c{ds, ctx.weights_BT + begin, type, DType::kF32, 1, false, rows.count, stride, 1, -1};
    ctx.kernels->convert(c, *ctx.stream);

    kernels::Matmul dw;  // dw[C] = ds^T n
    dw.c = ctx.gradient(weight_);
    dw.a = ds, dw.b = rows.n;
    dw.a_type = type, dw.b_type = ctx.type;
    dw.m = 1, dw.n = width, dw.k = rows.count;
    dw.ldc = width, dw.lda = stride, dw.ldb = width;
    dw.a_transposed = true;
    dw.accumulate = chunk_ctx.accumulate;
    if (dw.c != nullptr) ctx.matmul(dw);

    kernels::Matmul m;  // dn[rows, C] = ds w
    m.c_type = ctx.type;
    m.c = ctx.take(rows.count * width);
    m.a = ds, m.b = ctx.weight(weight_);
    m.a_type = type, m.b_type = ctx.weight_type(weight_);
    m.m = rows.count, m.n = width, m.k = 1;
    m.ldc = width, m.lda = stride, m.ldb = width;
    ctx.matmul(m);
    normalise_backward(chunk_ctx, rows, dx, m.c, x.x);
  }
  negate(ctx, losses, ctx.rows());
  keep_own_rows(ctx, own_dx, dx);
}

}  // namespace hawser::nn
