// RecomputeSet: the activations that a block discards after its forward pass and that RECOMPUTE rebuilds
// before its backward pass (Chen et al., arXiv:1604.06174; Korthikanti et al., arXiv:2205.05198, section 5).
// Dropout masks are a function of counters, so the rebuilt activations are bit-identical. CompressSet: the
// saved activations that are kept as records of fp8 (compressed_saved.h).
#pragma once

namespace hawser::nn {

struct RecomputeSet {
  bool qkv = false;         ///< outputs of the q, k, v projection: inputs of the core of attention
  bool attention = false;   ///< the output of the core, and its log-sum-exps
  bool mlp_hidden = false;  ///< the output of the up projection, and the activation if it is saved
  bool rest = false;        ///< statistics of norms, x', and branches before their post-norms
  /// If above 0, an MLP works on that many rows at a time (nn/tiled_sums.h). Its backward then recomputes
  /// mlp_hidden itself, tile by tile, so RECOMPUTE does not.
  int64_t rows = 0;

  static constexpr RecomputeSet all() { return {true, true, true, true}; }
  bool any() const { return qkv || attention || mlp_hidden || rest; }
  bool operator==(const RecomputeSet&) const = default;
};

/// Each member covers the arrays of its namesake in RecomputeSet, except statistics, which stay f32.
struct CompressSet {
  bool qkv = false, attention = false, mlp_hidden = false;

  bool any() const { return qkv || attention || mlp_hidden; }
  bool operator==(const CompressSet&) const = default;
};

}  // namespace hawser::nn
