#include "engine/assembly/countable.h"

#include <bit>

#include "engine/base/error.h"

namespace hawser::train {
namespace {

constexpr double kMostBytes = 4611686018427387904.0;  // 2^62
constexpr double kWidest = 8;                         // bytes of the widest number

/// Bounds the bytes of all copies of the parameters that can exist at once (weights twice, a secondary shard,
/// masters, full and sharded gradients, a window, two moments, a gathered copy: 10; a tree has more sets of
/// gradients), and of copies in transfer.
double state_bytes(double parameters, const config::BatchConfig& batch) {
  const double tree = std::bit_width(static_cast<uint64_t>(batch.grad_accum_steps)) + 1;
  const double travels = 3.0 * static_cast<double>(batch.grad_accum_steps);
  return kWidest * parameters * (10 + tree + travels);
}

/// Bounds the bytes that blocks save and compute with: at most 16 vectors of each width per token and layer,
/// plus logits and the micro-batches.
double activation_bytes(const nn::ModelConfig& m, const config::BatchConfig& batch) {
  const double tokens = static_cast<double>(batch.micro_batch) * static_cast<double>(batch.sequence);
  const double heads = static_cast<double>(m.heads + 2 * m.kv_heads);
  const double features = static_cast<double>(m.width + m.latent.q_rank + m.latent.kv_rank) +
                          heads * static_cast<double>(m.head_dim + m.latent.value_dim) +
                          3 * static_cast<double>(m.mlp_width);
  const double blocks = 16 * features * static_cast<double>(m.layers + 2);
  const double staged = 8 * static_cast<double>(batch.grad_accum_steps);
  return kWidest * tokens * (blocks + 2 * static_cast<double>(m.vocab_size) + staged);
}

}  // namespace

void require_countable(const nn::Model& model, const config::ResolvedConfig& config) {
  const auto parameters = static_cast<double>(model.table().count());
  const double state = state_bytes(parameters, config.batch);
  const double activations = activation_bytes(model.config(), config.batch);
  if (state + activations <= kMostBytes) return;
  fail(Code::kOutOfMemory,
       "out of memory: {:.1e} parameters, and {} micro-batches of {} x {} tokens, may take more than 2^62 "
       "bytes of memory or traffic, which is more than a plan can count; make {} smaller",
       parameters, config.batch.grad_accum_steps, config.batch.micro_batch, config.batch.sequence,
       state > activations ? "/model (or /batch/grad_accum_steps)" : "/batch/micro_batch or /batch/sequence");
}

}  // namespace hawser::train
