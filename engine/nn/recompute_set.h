// RecomputeSet: what a block does not keep from its forward to its backward, because RECOMPUTE makes it again
// in between (Chen et al., arXiv:1604.06174; Korthikanti et al., arXiv:2205.05198, section 5). Dropout is
// drawn by counters, so all bits are the same.
#pragma once

namespace hawser::nn {

struct RecomputeSet {
  bool qkv = false;         ///< outputs of the q, k, v projection: inputs of the core of attention
  bool attention = false;   ///< the output of that core, and its log-sum-exps
  bool mlp_hidden = false;  ///< the output of the up projection, and the activation where it is saved
  bool rest = false;        ///< statistics of norms, x', and branches before their post-norms

  static constexpr RecomputeSet all() { return {true, true, true, true}; }
  bool any() const { return qkv || attention || mlp_hidden || rest; }
  bool operator==(const RecomputeSet&) const = default;
};

}  // namespace hawser::nn
