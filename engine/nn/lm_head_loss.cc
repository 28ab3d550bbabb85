#include "engine/nn/lm_head_loss.h"

#include <algorithm>

namespace hawser::nn {
namespace {

DType logits_type(const Context& ctx) { return ctx.kernels->suited->narrow_logits ? ctx.type : DType::kF32; }

}  // namespace

LmHeadLoss::LmHeadLoss(const ParameterTable& table, const ModelConfig& model)
    : model_(model),
      norm_(table, model, "final_norm"),
      weight_(table.place(model.tied_head ? "embedding.tokens.weight" : "head.weight")) {}

int64_t LmHeadLoss::chunk_rows(const Context& ctx) const {
  // Few bytes of logits, but enough rows that reading the head's weight and gradient once per chunk costs
  // little.
  const int64_t row_bytes = model_.vocab_size * dtype_bytes(logits_type(ctx));
  return std::clamp<int64_t>(ctx.kernels->suited->logit_bytes / row_bytes, 512,
                             ctx.kernels->suited->logit_rows);
}

int64_t LmHeadLoss::rows_of_chunk(const Context& ctx, int64_t begin) const {
  return std::min(chunk_rows(ctx), ctx.rows() - begin);
}

float* LmHeadLoss::take_logits(const Context& ctx, int64_t rows) const {
  return ctx.workspace->take_as<float>(std::min(chunk_rows(ctx), rows) * model_.vocab_size);
}

/// Rows of logits start at 128-byte boundaries, whatever the vocabulary. Whole cache lines are then read and
/// written, and tensor cores accept them as an operand of the two following products.
LmHeadLoss::Chunk LmHeadLoss::take_chunk(const Context& ctx, int64_t begin, int64_t rows) const {
  const DType type = logits_type(ctx);
  const int64_t bound = 128 / dtype_bytes(type);
  Chunk chunk{begin,
              rows,
              ctx.take(rows * model_.width),
              norm_.take_saved(*ctx.workspace, rows),
              nullptr,
              type,
              (model_.vocab_size + bound - 1) / bound * bound};
  chunk.logits = ctx.workspace->take(rows * chunk.stride * dtype_bytes(chunk.type));
  return chunk;
}

void LmHeadLoss::compute_logits(const Context& ctx, const Chunk& chunk, const float* x) const {
  const int64_t width = model_.width;
  norm_.forward(ctx, chunk.saved, chunk.n, ctx.type, width, x + chunk.begin * width, DType::kF32,
                {chunk.rows, 1, width});
  kernels::Matmul m;
  m.c = chunk.logits;
  m.a = chunk.n;
  m.b = ctx.weight(weight_);
  m.c_type = chunk.type, m.a_type = ctx.type, m.b_type = ctx.weight_type(weight_);
  m.m = chunk.rows, m.n = model_.vocab_size, m.k = width;
  m.ldc = chunk.stride, m.lda = width, m.ldb = width;
  m.b_transposed = true;
  ctx.matmul(m);
}

void LmHeadLoss::cross_entropy(const Context& ctx, const Chunk& chunk, float* losses, const float* grad_scale,
                               bool backward) const {
  kernels::CrossEntropy c;
  c.losses = losses + chunk.begin;
  c.logits = chunk.logits;
  c.targets = ctx.targets_BT + chunk.begin;
  c.grad_scale = grad_scale;
  c.rows = chunk.rows, c.vocab = model_.vocab_size;
  c.softcap = static_cast<float>(model_.logit_softcap);
  c.backward = backward;
  c.type = chunk.type;
  c.stride = chunk.stride;
  if (ctx.weights_BT != nullptr) c.weights = ctx.weights_BT + chunk.begin;
  ctx.kernels->cross_entropy(c, *ctx.stream);
}

void LmHeadLoss::forward_backward(const Context& ctx, float* losses, float* dx, const float* x,
                                  const float* grad_scale) const {
  const int64_t width = model_.width, vocab = model_.vocab_size;
  Context chunk_ctx = ctx;
  for (int64_t begin = 0; begin < ctx.rows(); begin += chunk_rows(ctx)) {
    RegionScope scope(*ctx.workspace);
    const Chunk chunk = take_chunk(ctx, begin, rows_of_chunk(ctx, begin));
    compute_logits(ctx, chunk, x);
    cross_entropy(ctx, chunk, losses, grad_scale, true);
    chunk_ctx.accumulate = ctx.accumulate || begin > 0;

    kernels::Matmul dw;  // dW[V, C] = dlogits^T n
    dw.c = ctx.gradient(weight_);
    dw.a = chunk.logits;
    dw.b = chunk.n;
    dw.a_type = chunk.type, dw.b_type = ctx.type;
    dw.m = vocab, dw.n = width, dw.k = chunk.rows;
    dw.ldc = width, dw.lda = chunk.stride, dw.ldb = width;
    dw.a_transposed = true;
    dw.accumulate = chunk_ctx.accumulate;
    if (dw.c != nullptr) ctx.matmul(dw);

    void* const dn = ctx.take(chunk.rows * width);
    kernels::Matmul m;  // dn[rows, C] = dlogits W
    m.c = dn;
    m.a = chunk.logits;
    m.b = ctx.weight(weight_);
    m.c_type = ctx.type, m.a_type = chunk.type, m.b_type = ctx.weight_type(weight_);
    m.m = chunk.rows, m.n = width, m.k = vocab;
    m.ldc = width, m.lda = chunk.stride, m.ldb = width;
    ctx.matmul(m);
    norm_.backward(chunk_ctx, chunk.saved, dx + begin * width, DType::kF32, width, dn, ctx.type, width,
                   x + begin * width, DType::kF32, {chunk.rows, 1, width});
  }
}

void LmHeadLoss::forward(const Context& ctx, float* losses, const float* x) const {
  for (int64_t begin = 0; begin < ctx.rows(); begin += chunk_rows(ctx)) {
    RegionScope scope(*ctx.workspace);
    const Chunk chunk = take_chunk(ctx, begin, rows_of_chunk(ctx, begin));
    compute_logits(ctx, chunk, x);
    cross_entropy(ctx, chunk, losses, nullptr, false);
  }
}

void LmHeadLoss::logits(const Context& ctx, float* logits, const float* x, int64_t rows) const {
  const int64_t width = model_.width, vocab = model_.vocab_size;
  for (int64_t begin = 0; begin < rows; begin += chunk_rows(ctx)) {
    RegionScope scope(*ctx.workspace);
    const int64_t some = std::min(chunk_rows(ctx), rows - begin);
    const Chunk chunk{begin,
                      some,
                      ctx.take(some * width),
                      norm_.take_saved(*ctx.workspace, some),
                      logits + begin * vocab,
                      DType::kF32,
                      vocab};
    compute_logits(ctx, chunk, x);
  }
  if (model_.logit_softcap > 0)
    ctx.kernels->soft_cap({logits, rows * vocab, static_cast<float>(model_.logit_softcap)}, *ctx.stream);
}

}  // namespace hawser::nn
