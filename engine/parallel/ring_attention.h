// Ring attention (Liu et al., arXiv:2310.01889): keys and values of one rank's columns travel around the
// ring, each rank computes its queries against what it holds, and partial outputs meet by log-sum-exp, in
// f32. Memory grows with own columns only. In backward keys and values travel again, and behind them their
// gradients, in f32, each to the rank that computes the next part; the owner adds its own part last. Where
// keys and values are made of something narrower, that travels in their place, with its gradient, and each
// rank makes them anew.
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
  struct Travelling;
  struct Pair;
  int64_t owner_at(int64_t hop) const { return (own().rank + own().ranks - hop) % own().ranks; }
};

}  // namespace hawser::parallel
