#include "engine/nn/lm_head_loss.h"

#include <algorithm>

namespace hawser::nn {
namespace {

/// Returns the type of this rank's addend of dn, before the sum over ranks.
DType addend_type(const Context& ctx) { return ctx.exchange->ranks() > 1 ? DType::kF32 : ctx.type; }

const char* name_of(const ModelConfig& model) {
  return model.tied_head ? "embedding.tokens.weight" : "head.weight";
}

DType logits_type(const Context& ctx) { return ctx.kernels->suited->narrow_logits ? ctx.type : DType::kF32; }

}  // namespace

LmHeadLoss::LmHeadLoss(const ParameterTable& table, const ModelConfig& model, const std::string& norm)
    : Head(table, model, name_of(model), norm), words_(VocabShard::of(table, name_of(model))) {}

int64_t LmHeadLoss::chunk_rows(const Context& ctx) const {
  // A chunk has few bytes of logits, but enough rows that reading the head's weight and gradient once per
  // chunk costs little.
  const int64_t row_bytes = words_.room * dtype_bytes(logits_type(ctx));
  return std::clamp<int64_t>(ctx.kernels->suited->logit_bytes / row_bytes, 512,
                             ctx.kernels->suited->logit_rows);
}

/// Rows of logits start at 128-byte boundaries, whatever the vocabulary. Kernels then read and write full
/// cache lines, and tensor cores accept the logits as an operand of the two following products.
LmHeadLoss::Chunk LmHeadLoss::take_chunk(const Context& ctx, int64_t begin, int64_t rows) const {
  const DType type = logits_type(ctx);
  const int64_t bound = 128 / dtype_bytes(type);
  const int64_t most = words_.whole_tiles(words_.room);
  Chunk chunk{take_rows(ctx, begin, rows), nullptr, type, words_.multiplied(ctx),
              (most + bound - 1) / bound * bound};
  chunk.logits = ctx.workspace->take(rows * chunk.stride * dtype_bytes(chunk.type));
  return chunk;
}

void LmHeadLoss::compute_logits(const Context& ctx, const Chunk& chunk, const StreamInput& x) const {
  const int64_t width = model_.width;
  normalise(ctx, chunk.rows, x);
  kernels::Matmul m;
  m.c = chunk.logits;
  m.a = chunk.rows.n;
  m.b = ctx.weight(weight_);
  m.c_type = chunk.type, m.a_type = ctx.type, m.b_type = ctx.weight_type(weight_);
  m.m = chunk.rows.count, m.n = chunk.columns, m.k = width;
  m.ldc = chunk.stride, m.lda = width, m.ldb = width;
  m.b_transposed = true;
  ctx.matmul(m);
}

/// A rank with the full vocabulary needs one pass over its logits. Ranks that divide the vocabulary first
/// exchange three numbers for each row: the maximum, the sum of exponentials and the target's logit; with a
/// teacher, also the sum of exponentials at its temperature, and the logit's mean under its probabilities.
void LmHeadLoss::cross_entropy(const Context& ctx, const Chunk& chunk, float* losses, const float* grad_scale,
                               bool backward) const {
  kernels::CrossEntropy c;
  c.losses = losses + chunk.rows.begin;
  c.logits = chunk.logits;
  c.targets = ctx.targets_BT + chunk.rows.begin;
  c.grad_scale = grad_scale;
  c.rows = chunk.rows.count, c.vocab = words_.count(ctx);
  c.softcap = static_cast<float>(model_.logit_softcap);
  c.backward = backward;
  c.type = chunk.type;
  c.stride = chunk.stride;
  if (ctx.weights_BT != nullptr) c.weights = ctx.weights_BT + chunk.rows.begin;
  if (backward && ctx.teacher.weight > 0) c.teacher = ctx.teacher.from_row(chunk.rows.begin);
  const int64_t ranks = ctx.exchange->ranks();
  if (ranks == 1) return ctx.kernels->cross_entropy(c, *ctx.stream);
  RegionScope scope(*ctx.workspace);
  const int64_t count = chunk.rows.count * kernels::row_statistics(c.teacher);
  float* const all = ctx.workspace->take_as<float>(ranks * count);
  ctx.kernels->cross_entropy_statistics({c, words_.first(ctx), all + ctx.exchange->rank() * count},
                                        *ctx.stream);
  ctx.exchange->gather(ctx, all, count);
  ctx.kernels->cross_entropy_divided({c, words_.first(ctx), all, ranks}, *ctx.stream);
}

void LmHeadLoss::forward_backward(const Context& ctx, float* losses, float* dx, const StreamInput& input,
                                  const float* grad_scale) const {
  RegionScope of_rows(*ctx.workspace);
  const StreamInput x = whole_rows(ctx, input);
  float* const all_dx = ctx.exchange->whole_rows(ctx, dx, model_.width);
  forward_backward_rows(ctx, losses, all_dx, x, grad_scale, ctx.accumulate);
  add_further(ctx, losses + ctx.rows(), all_dx, x.x);
  keep_own_rows(ctx, dx, all_dx);
}

void LmHeadLoss::forward_backward_rows(const Context& ctx, float* losses, float* dx, const StreamInput& x,
                                       const float* grad_scale, bool adds) const {
  const int64_t width = model_.width;
  Context chunk_ctx = ctx;
  for (int64_t begin = 0; begin < ctx.rows(); begin += chunk_rows(ctx)) {
    RegionScope scope(*ctx.workspace);
    const Chunk chunk = take_chunk(ctx, begin, rows_of_chunk(ctx, begin));
    compute_logits(ctx, chunk, x);
    cross_entropy(ctx, chunk, losses, grad_scale, true);
    chunk_ctx.accumulate = ctx.accumulate || begin > 0;

    kernels::Matmul dw;  // dW[V, C] = dlogits^T n; writes zeros into the padding rows
    dw.c = ctx.gradient(weight_);
    dw.a = chunk.logits;
    dw.b = chunk.rows.n;
    dw.a_type = chunk.type, dw.b_type = ctx.type;
    dw.m = chunk.columns, dw.n = width, dw.k = chunk.rows.count;
    dw.ldc = width, dw.lda = chunk.stride, dw.ldb = width;
    dw.a_transposed = true;
    dw.accumulate = adds || begin > 0;
    if (dw.c != nullptr) ctx.matmul(dw);

    kernels::Matmul m;  // dn[rows, C] = dlogits W
    m.c_type = addend_type(ctx);
    m.c = ctx.workspace->take(chunk.rows.count * width * dtype_bytes(m.c_type));
    m.a = chunk.logits;
    m.b = ctx.weight(weight_);
    m.a_type = chunk.type, m.b_type = ctx.weight_type(weight_);
    m.m = chunk.rows.count, m.n = width, m.k = chunk.columns;  // the padding multiplies zeros by zeros
    m.ldc = width, m.lda = chunk.stride, m.ldb = width;
    ctx.matmul(m);
    const void* const dn = sum_over_ranks(ctx, m);
    normalise_backward(chunk_ctx, chunk.rows, dx, dn, x.x);
  }
}

/// Returns the gradient of the normalised rows: the sum over ranks of their addends, rounded once.
const void* LmHeadLoss::sum_over_ranks(const Context& ctx, const kernels::Matmul& addend) const {
  const int64_t elements = addend.m * addend.n;
  ctx.exchange->sum(ctx, addend.c, addend.c_type, elements);
  if (addend.c_type == ctx.type) return addend.c;
  void* const rounded = ctx.take(elements);
  ctx.kernels->convert({rounded, addend.c, ctx.type, addend.c_type, elements}, *ctx.stream);
  return rounded;
}

void LmHeadLoss::forward(const Context& ctx, float* losses, const StreamInput& input) const {
  RegionScope of_rows(*ctx.workspace);
  const StreamInput x = whole_rows(ctx, input);
  for (int64_t begin = 0; begin < ctx.rows(); begin += chunk_rows(ctx)) {
    RegionScope scope(*ctx.workspace);
    const Chunk chunk = take_chunk(ctx, begin, rows_of_chunk(ctx, begin));
    compute_logits(ctx, chunk, x);
    cross_entropy(ctx, chunk, losses, nullptr, false);
  }
}

/// Zeroes rows of logits, to which every rank then adds the logits of its vocabulary rows.
void LmHeadLoss::clear(const Context& ctx, float* logits, int64_t rows) const {
  kernels::Matmul nothing;  // a product with k = 0
  nothing.c = logits;
  nothing.m = rows, nothing.n = nothing.ldc = model_.vocab_size;
  ctx.matmul(nothing);
}

void LmHeadLoss::logits(const Context& ctx, float* logits, const void* x, int64_t rows) const {
  const int64_t vocab = model_.vocab_size;
  for (int64_t begin = 0; begin < rows; begin += chunk_rows(ctx)) {
    RegionScope scope(*ctx.workspace);
    const int64_t some = std::min(chunk_rows(ctx), rows - begin);
    const Chunk chunk{take_rows(ctx, begin, some), logits + begin * vocab + words_.first(ctx), DType::kF32,
                      words_.count(ctx), vocab};
    if (ctx.exchange->ranks() > 1) clear(ctx, logits + begin * vocab, some);
    compute_logits(ctx, chunk, x);
    ctx.exchange->sum(ctx, logits + begin * vocab, DType::kF32, some * vocab);
  }
  if (model_.logit_softcap > 0)
    ctx.kernels->soft_cap({logits, rows * vocab, static_cast<float>(model_.logit_softcap)}, *ctx.stream);
}

}  // namespace hawser::nn
