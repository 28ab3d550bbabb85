// Ring attention (Liu et al., arXiv:2310.01889): keys and values of one rank's columns travel around the
// ring, each rank computes its queries against what it holds, and partial outputs meet by log-sum-exp, in
// f32. Memory grows with own columns only. In backward keys and values travel again, and behind them their
// gradients, in f32, each to the rank that computes the next part; the owner adds its own part last. A
// narrower source of keys and values may travel in their place (ring_chunks.h).
#pragma once

#include "engine/parallel/context_parallel.h"

namespace hawser::parallel {

class RingAttention final : public ContextParallel {
 public:
  using ContextParallel::ContextParallel;

  void forward(const nn::Context& ctx, const kernels::AttentionShape& s, const nn::AttentionCoreSaved& saved,
               const nn::AttentionInputs& in) const override;
  void backward(const nn::Context& ctx, const kernels::AttentionShape& s, const nn::AttentionCoreSaved& saved,
                const nn::AttentionInputs& in, const nn::AttentionGradients& gradients,
                const void* d_o) const override;
  bool is_ring() const override { return true; }

 private:
  struct Call;
  struct Pair;
  class Chunks;
  class PlainChunks;
  class SourceChunks;
  /// Calls use(chunks) with the kind of chunks that the inputs of the call need.
  template <typename Use>
  void with_chunks(const Call& call, const Use& use) const;
  int64_t owner_at(int64_t hop) const { return (own().rank + own().ranks - hop) % own().ranks; }
};

}  // namespace hawser::parallel
