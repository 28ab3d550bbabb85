#include "engine/nn/lm_head_loss.h"

#include <algorithm>

namespace hawser::nn {
LmHeadLoss::LmHeadLoss(const ParameterTable& table, const ModelConfig& model)
    : model_(model),
      norm_(table, model, "final_norm"),
      weight_(table.place(model.tied_head ? "embedding.tokens.weight" : "head.weight")) {}

int64_t LmHeadLoss::chunk_rows() const {
  // About 8 MiB of logits, but enough rows that reading the head's weight and gradient once a chunk costs
  // little.
  return std::clamp<int64_t>((int64_t{1} << 21) / model_.vocab_size, 256, 4096);
}

float* LmHeadLoss::take_logits(const Context& ctx, int64_t rows) const {
  return ctx.workspace->take_as<float>(std::min(chunk_rows(), rows) * model_.vocab_size);
}

LmHeadLoss::Chunk LmHeadLoss::compute_logits(const Context& ctx, const float* x, int64_t begin, int64_t rows,
                                             float* out) const {
  const int64_t width = model_.width;
  Chunk chunk{begin, rows, ctx.take(rows * width), norm_.take_saved(*ctx.workspace, rows), out};
  if (out == nullptr) chunk.logits = ctx.workspace->take_as<float>(rows * model_.vocab_size);
  norm_.forward(ctx, chunk.saved, chunk.n, ctx.activation, width, x + begin * width, DType::kF32,
                {rows, 1, width});
  kernels::Matmul m;
  m.c = chunk.logits;
  m.a = chunk.n;
  m.b = ctx.weight(weight_);
  m.a_type = ctx.activation, m.b_type = ctx.weight_type(weight_);
  m.m = rows, m.n = model_.vocab_size, m.k = width;
  m.ldc = model_.vocab_size, m.lda = width, m.ldb = width;
  m.b_transposed = true;
  ctx.matmul(m);
  return chunk;
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
  ctx.kernels->cross_entropy(c, *ctx.stream);
}

void LmHeadLoss::forward_backward(const Context& ctx, float* losses, float* dx, const float* x,
                                  const float* grad_scale) const {
  const int64_t width = model_.width, vocab = model_.vocab_size;
  Context chunk_ctx = ctx;
  for (int64_t begin = 0; begin < ctx.rows(); begin += chunk_rows()) {
    RegionScope scope(*ctx.workspace);
    const Chunk chunk = compute_logits(ctx, x, begin, std::min(chunk_rows(), ctx.rows() - begin), nullptr);
    cross_entropy(ctx, chunk, losses, grad_scale, true);
    chunk_ctx.accumulate = ctx.accumulate || begin > 0;

    kernels::Matmul dw;  // dW[V, C] = dlogits^T n
    dw.c = ctx.gradient(weight_);
    dw.a = chunk.logits;
    dw.b = chunk.n;
    dw.b_type = ctx.activation;
    dw.m = vocab, dw.n = width, dw.k = chunk.rows;
    dw.ldc = width, dw.lda = vocab, dw.ldb = width;
    dw.a_transposed = true;
    dw.accumulate = chunk_ctx.accumulate;
    if (dw.c != nullptr) ctx.matmul(dw);

    float* const dn = ctx.workspace->take_as<float>(chunk.rows * width);
    kernels::Matmul m;  // dn[rows, C] = dlogits W
    m.c = dn;
    m.a = chunk.logits;
    m.b = ctx.weight(weight_);
    m.b_type = ctx.weight_type(weight_);
    m.m = chunk.rows, m.n = width, m.k = vocab;
    m.ldc = width, m.lda = vocab, m.ldb = width;
    ctx.matmul(m);
    norm_.backward(chunk_ctx, chunk.saved, dx + begin * width, DType::kF32, false, width, dn, DType::kF32,
                   width, x + begin * width, DType::kF32, {chunk.rows, 1, width});
  }
}

void LmHeadLoss::forward(const Context& ctx, float* losses, const float* x) const {
  for (int64_t begin = 0; begin < ctx.rows(); begin += chunk_rows()) {
    RegionScope scope(*ctx.workspace);
    const Chunk chunk = compute_logits(ctx, x, begin, std::min(chunk_rows(), ctx.rows() - begin), nullptr);
    cross_entropy(ctx, chunk, losses, nullptr, false);
  }
}

void LmHeadLoss::logits(const Context& ctx, float* logits, const float* x, int64_t rows) const {
  const int64_t vocab = model_.vocab_size;
  for (int64_t begin = 0; begin < rows; begin += chunk_rows()) {
    RegionScope scope(*ctx.workspace);
    compute_logits(ctx, x, begin, std::min(chunk_rows(), rows - begin), logits + begin * vocab);
  }
  if (model_.logit_softcap > 0)
    ctx.kernels->soft_cap({logits, rows * vocab, static_cast<float>(model_.logit_softcap)}, *ctx.stream);
}

}  // namespace hawser::nn
