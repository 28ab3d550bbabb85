// GatherAttention: context parallelism by all_gather. Every rank gathers the keys and values of all columns,
// and a reduce_scatter sums their gradients in f32. Memory grows with complete rows; ring and ulysses are
// tested against this simple method.
#pragma once

#include "engine/parallel/context_parallel.h"

namespace hawser::parallel {

class GatherAttention final : public ContextParallel {
 public:
  using ContextParallel::ContextParallel;

  void forward(const nn::Context& ctx, const kernels::AttentionShape& s, const nn::AttentionCoreSaved& saved,
               const nn::AttentionInputs& in) const override;
  void backward(const nn::Context& ctx, const kernels::AttentionShape& s, const nn::AttentionCoreSaved& saved,
                const nn::AttentionInputs& in, const nn::AttentionGradients& gradients,
                const void* d_o) const override;

 private:
  void* gather(const nn::Context& ctx, const kernels::AttentionShape& s, const nn::AttentionInputs& in) const;
};

}  // namespace hawser::parallel
