// UlyssesAttention (Jacobs et al., arXiv:2309.14509): an all_to_all exchanges the local columns of all heads
// for all columns of the local heads, attention runs as on one rank, and a second all_to_all reverses this
// for its output. With fewer key/value heads than ranks, several ranks get the same head, and the ranks that
// own the columns sum its gradients. Attention's inputs are saved in the exchanged form, so backward
// exchanges gradients only.
#pragma once

#include "engine/parallel/context_parallel.h"

namespace hawser::parallel {

class UlyssesAttention final : public ContextParallel {
 public:
  using ContextParallel::ContextParallel;

  void forward(const nn::Context& ctx, const kernels::AttentionShape& s, const nn::AttentionCoreSaved& saved,
               const nn::AttentionInputs& in) const override;
  void backward(const nn::Context& ctx, const kernels::AttentionShape& s, const nn::AttentionCoreSaved& saved,
                const nn::AttentionInputs& in, const nn::AttentionGradients& gradients,
                const void* d_o) const override;
  /// Returns the elements of q, k, v and o for all columns and this rank's heads.
  int64_t exchanged_elements(const kernels::AttentionShape& s) const override;

 private:
  struct Heads;
  Heads heads_of(const kernels::AttentionShape& s) const;
  void to_heads(const nn::Context& ctx, void* all, void* sent, DType type, int64_t width) const;
  void* to_columns(const nn::Context& ctx, const void* all, DType type, int64_t width) const;
  void sum_shared(const nn::Context& ctx, const kernels::AttentionShape& s, const Heads& h, int64_t width,
                  void* to, const void* from) const;
};

}  // namespace hawser::parallel
