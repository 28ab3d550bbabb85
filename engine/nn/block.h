// Block: one transformer layer.
//
//   n1 = norm(x);  x' = x + dropout(post_norm(attention(n1)))
//   n2 = norm(x'); y  = x' + dropout(post_norm(mlp(n2)))          (post_norm: Gemma only)
#pragma once

#include <cstdint>
#include <optional>

#include "engine/nn/context.h"
#include "engine/nn/feed_forward.h"
#include "engine/nn/norm.h"
#include "engine/nn/self_attention.h"

namespace hawser::nn {

/// Activations that forward saves for backward, besides x. Outputs of norms and of the activation function
/// are not saved: the backward kernels recompute them. x' comes first, because the block above may read it
/// (Block::last_sum). Bytes per row, with e bytes per element of the
/// activation type, S = 1 statistic per norm (2 with LayerNorm), F' = F or, gated, 2F:
///   e ((H + 2K) D + H D + F') + r C + 4 (H + 2S), with r bytes per element of the residual stream
///   with QK-norm:     + e (H + K) D + 4 (H + K)
///   with post-norms:  + 2b C + 8S, with b bytes per element of a branch's output
///   with the activation fused into products: + e F
///   in a sparse layer, instead of e F': see moe/mixture.h
///   with latent attention, instead of e ((H + 2K) D + H D): see latent_attention.h
/// Each array is rounded up to 64 bytes. The weight pass of a backward reads the core's output (e H D) and
/// the fused activation; only the input pass reads the rest. RecomputeSet selects the arrays that are
/// recomputed instead of saved:
///   qkv: e (H + 2K) D, and the additions of QK-norm;  attention: e H D + 4 H;
///   mlp_hidden: e F', and e F if fused;  rest: everything else
/// With RecomputeSet::rows, a recomputed mlp_hidden has no array: the MLP's workspace holds some rows of it
/// at a time. CompressSet selects arrays that are saved as records of fp8 (compressed_saved.h): a row of n
/// elements then has 129 ceil(n / 128) bytes instead of e n. Statistics stay f32, and the second branch of a
/// sparse layer is not compressed.
struct BlockSaved {
  NormSaved attention_norm, mlp_norm, attention_post_norm, mlp_post_norm;
  SelfAttentionSaved attention;
  void* attention_out = nullptr;  ///< output before its post-norm; only with post-norms
  void* x_mid = nullptr;          ///< x'
  FeedForwardSaved mlp;
  void* mlp_out = nullptr;  ///< output before its post-norm; only with post-norms
};

/// The memory in which a block's arrays stay between its instructions. Regions that an instruction does not
/// use are empty.
struct BlockRegions {
  Region saved{};        ///< saved by forward for backward (of two passes, the input pass)
  Region kept{};         ///< saved by forward for the weight pass; the input pass reads it too
  Region remade{};       ///< as `saved`, but filled by RECOMPUTE; scratch of forward
  Region remade_kept{};  ///< as `kept`, but filled by RECOMPUTE; scratch of forward
  Region made{};         ///< stored by the input pass for the weight pass
  bool halves = false;   ///< if false, kept arrays are in `saved` and `remade`

  Region& of(bool remakes, bool for_weights = false) {
    if (for_weights && halves) return remakes ? remade_kept : kept;
    return remakes ? remade : saved;
  }
};

/// Intermediates that the input pass stores for the weight pass. They have the activation type, and per row,
/// with the letters above, e ((H + 2K) D + F' + 4C), and e F unless the activation was saved. Of the 4C, a
/// sequence-parallel rank stores 2C for its local rows only, and everything else for all rows.
struct WeightPassInputs {
  void* mlp_dy = nullptr;        ///< gradient of the branch's output, for all rows
  FeedForwardMade mlp;           ///< gradient of the up projection's output, and the activation
  void* mlp_in = nullptr;        ///< input of the branch, for local rows
  void* attention_dy = nullptr;  ///< as for the MLP
  SelfAttentionMade attention;   ///< gradient of the q, k, v projection's output
  void* attention_in = nullptr;
};

class Block {
 public:
  /// `model` is the rank's share (local_model). It must outlive the block.
  Block(const ParameterTable& table, const ModelConfig& model, int64_t layer, const MoeTraining& moe = {});

  /// Computes y[rows, C] from x[rows, C], of ctx.residual_type. The regions receive what backward needs. If
  /// `branch` is not null, it receives the output of the second branch, and the last sum is left to the
  /// reader of y, who calls last_sum. x' is then at the beginning of `saved`; if recomputed, it is in y.
  void forward(const Context& ctx, BlockRegions& regions, const float* cos_sin, void* y, const StreamInput& x,
               void* branch = nullptr) const;
  /// Returns the last sum of a forward that left it to the reader of y. y may be x_mid.
  kernels::ResidualForward last_sum(const Context& ctx, void* y, const void* x_mid, const void* branch) const;
  /// Returns the bytes that forward saves if it recomputes and compresses nothing.
  int64_t saved_bytes(const Context& ctx) const;
  /// Returns the bytes of `branch` for all local rows.
  int64_t branch_bytes(const Context& ctx) const { return output_bytes(ctx, ctx.own_rows().room); }
  /// Recomputes the arrays of ctx.remakes, bit-identically, from x and the arrays that forward saved. With
  /// `rest` it also computes y, unless y is null; otherwise it computes only what backward needs.
  void recompute(const Context& ctx, BlockRegions& regions, const float* cos_sin, void* y,
                 const void* x) const;
  /// Computes dx[rows, C] in place: the gradient of y on entry, of x on return. The regions are those that
  /// forward (and recompute) filled. If the rounded gradient is given, branches read it, and norms write it;
  /// otherwise each branch rounds dx itself.
  void backward(const Context& ctx, BlockRegions& regions, const float* cos_sin, const StreamGradient& dx,
                const void* x) const;
  /// The input pass (Qi et al., arXiv:2401.10241): the backward without the gradients of projections. Both
  /// passes together give results bit-identical to `backward`.
  void backward_input(const Context& ctx, BlockRegions& regions, const float* cos_sin,
                      const StreamGradient& dx, const void* x) const;
  /// The weight pass. It reads `kept`, `remade_kept` and `made`.
  void backward_weight(const Context& ctx, BlockRegions& regions) const;
  /// Used in generation: updates x[rows, C] in place. The rows are the next positions of one text.
  void forward_cached(const Context& ctx, const KvCache& cache, const float* cos_sin, void* x) const;

  /// True if blocks can use a rounded gradient of the residual stream: nothing lies between the stream and a
  /// branch's last product, whose operands have this type.
  static bool reads_rounded(const kernels::KernelTable& kernels, const ModelConfig& model, DType type) {
    return kernels.suited->rounded_gradients && type == DType::kBf16 && !model.post_norm &&
           model.dropout_residual == 0;
  }
  /// True if the backend prefers blocks to leave their last sum to the next norm, and there is no post-norm.
  static bool defers_sums(const kernels::KernelTable& kernels, const ModelConfig& model) {
    return kernels.suited->defers_sums && !model.post_norm;
  }
  /// Rounds dx.dx into dx.rounded. Not needed after the backward of a block, which writes both.
  static void round(const Context& ctx, const StreamGradient& dx, int64_t width);

  /// Returns null for a dense layer.
  const Balance* balance() const { return mlp_.balance(); }

 private:
  BlockSaved take_saved(const Context& ctx, BlockRegions& regions) const;
  void forward_attention(const Context& ctx, const BlockSaved& s, const float* cos_sin, void* n, void* out,
                         const StreamInput& x) const;
  void forward(const Context& ctx, const BlockSaved& s, const float* cos_sin, void* y, const StreamInput& x,
               void* left) const;
  WeightPassInputs take_weight_pass_inputs(const Context& ctx, const BlockSaved& saved, Region& region) const;
  GatheredRows enter(const Context& ctx, const void* n) const;
  /// The output of a branch, or its gradient.
  struct Branch {
    const void* data;
    DType type;
  };
  kernels::ResidualForward sum(const Context& ctx, const std::optional<NormLayer>& post_norm,
                               const NormSaved& saved, void* y, const void* x, Branch branch,
                               DropoutSite site) const;
  Branch branch_gradient(const Context& ctx, const std::optional<NormLayer>& post_norm,
                         const NormSaved& saved, const StreamGradient& dy, Branch branch,
                         DropoutSite site) const;

  int64_t output_bytes(const Context& ctx, int64_t rows) const;
  void backward_mlp(const Context& ctx, const BlockSaved& s, const StreamGradient& dx,
                    const WeightPassInputs* later) const;
  void backward_mlp_in_tiles(const Context& ctx, const BlockSaved& s, void* dn, Branch dy,
                             const WeightPassInputs* later) const;
  void backward_attention(const Context& ctx, const BlockSaved& s, const float* cos_sin,
                          const StreamGradient& dx, const void* x, const WeightPassInputs* later) const;
  void copy(const Context& ctx, void* to, const void* from, DType type) const;
  /// The inputs of branches that the input pass keeps for the weight pass.
  SavedRows mlp_input(const Context& ctx) const { return mlp_.saved_input(ctx, ctx.own_rows().room, width_); }
  SavedRows attention_input(const Context& ctx) const {
    return attention_.saved_input(ctx, ctx.own_rows().room, width_);
  }

  const ModelConfig& model_;
  int64_t layer_, width_;
  NormLayer attention_norm_;
  SelfAttention attention_;
  std::optional<NormLayer> attention_post_norm_;
  NormLayer mlp_norm_;
  FeedForward mlp_;
  std::optional<NormLayer> mlp_post_norm_;
};

}  // namespace hawser::nn
