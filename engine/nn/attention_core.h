// The core of attention: scores, their softmax, and the weighted sum of values (kernels/include/attention.h).
// It has no weights and no projections, so either can change without the other: the core (for instance keys
// and values sent between ranks) or the projections around it.
#pragma once

#include <cstdint>

#include "engine/nn/context.h"
#include "engine/nn/model_config.h"

namespace hawser::nn {

/// Heads side by side in each row: q[rows, H D], k and v[rows, K D], with their strides. Activation type.
struct AttentionInputs {
  const void *q = nullptr, *k = nullptr, *v = nullptr;
  int64_t q_stride = 0, kv_stride = 0;
};

/// Gradients, laid out as the inputs are.
struct AttentionGradients {
  void *dq = nullptr, *dk = nullptr, *dv = nullptr;
};

/// What forward saves for backward. Per row: H D elements of the output and H floats.
struct AttentionCoreSaved {
  void* o = nullptr;     ///< [rows, H D], the output
  float* lse = nullptr;  ///< [B, H, T], log-sum-exp of each row of scores
};

class AttentionCore {
 public:
  /// `model` must outlive the core.
  AttentionCore(const ModelConfig& model, int64_t layer) : model_(model), layer_(layer) {}

  AttentionCoreSaved take_saved(const Context& ctx, Region& region) const;
  /// Computes saved.o and saved.lse. A row attends to itself and the rows before it in its document.
  void forward(const Context& ctx, const AttentionCoreSaved& saved, const AttentionInputs& in) const;
  /// Generation: queries are the rows that follow `past` earlier ones; keys and values cover all of them.
  void forward_cached(const Context& ctx, const AttentionCoreSaved& saved, const AttentionInputs& in,
                      int64_t past) const;
  /// Computes the gradients of the inputs (overwritten) from d_o[rows, H D] and the forward's inputs and
  /// results.
  void backward(const Context& ctx, const AttentionCoreSaved& saved, const AttentionInputs& in,
                const AttentionGradients& gradients, const void* d_o) const;

 private:
  kernels::AttentionShape shape(const Context& ctx, const AttentionInputs& in) const;
  void run(const Context& ctx, const kernels::AttentionShape& shape, const AttentionCoreSaved& saved,
           const AttentionInputs& in) const;

  const ModelConfig& model_;
  int64_t layer_;
};

}  // namespace hawser::nn
