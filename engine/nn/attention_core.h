// AttentionCore: computes scores, their softmax, and the weighted sum of values
// (kernels/include/attention.h). It has no projections, and no weights except sinks. Under context
// parallelism, column_exchange.h exchanges keys and values between ranks.
#pragma once

#include <cstdint>

#include "engine/nn/column_exchange.h"
#include "engine/nn/compressed_saved.h"
#include "engine/nn/context.h"
#include "engine/nn/model_config.h"

namespace hawser::nn {

class AttentionCore {
 public:
  /// `model` must outlive the core.
  AttentionCore(const ParameterTable& table, const ModelConfig& model, int64_t layer)
      : model_(model), layer_(layer), sinks_(table, layer) {}

  /// Takes memory from `region`, and from `kept` for the output, which the weight pass of a backward reads.
  AttentionCoreSaved take_saved(const Context& ctx, Region& region, Region& kept) const;
  /// Returns the form in which the output is saved.
  SavedRows output(const Context& ctx) const;
  /// Computes saved.o and saved.lse. A row attends to itself and the rows before it in its document.
  void forward(const Context& ctx, const AttentionCoreSaved& saved, const AttentionInputs& in) const;
  /// Used in generation: queries are the rows that follow `past` earlier ones; keys and values cover all of
  /// them.
  void forward_cached(const Context& ctx, const AttentionCoreSaved& saved, const AttentionInputs& in,
                      int64_t past) const;
  /// Computes the gradients of the inputs (overwritten) and of the sinks from d_o[rows, H V] and the
  /// forward's inputs and results.
  void backward(const Context& ctx, const AttentionCoreSaved& saved, const AttentionInputs& in,
                const AttentionGradients& gradients, const void* d_o) const;

 private:
  kernels::AttentionShape shape(const Context& ctx, const AttentionInputs& in) const;

  AttentionInputs with_sinks(AttentionInputs in) const {
    in.sinks = sinks_;
    return in;
  }

  const ModelConfig& model_;
  int64_t layer_;
  AttentionSinks sinks_;
};

}  // namespace hawser::nn
