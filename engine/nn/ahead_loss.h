// AheadLoss: LmHeadLoss of a model that learns to predict several tokens ahead (multi-token prediction,
// DeepSeek-V3, arXiv:2412.19437, section 2.2). Depth d of D, counted from 1, has norms, a matrix W and a
// block:
//
//   s_t = W [norm(e(token t+d)); norm(n_t)];  h_t = block(s_t);  n'_t = norm(h_t);  logits = head(n'_t)
//
// n is the head's input at the depth before (its n'); at depth 1, it is the output of the final norm. Depths
// share the embedding's table e and the head's matrix with the model. The losses of the routers in a depth's
// block have the same weight as the loss of the depth. The target of depth d at position t is the model's
// target at position t + d; if that is beyond the end of the document, there is none. The gradients are added
// to those of the next token's loss. No other instruction reads the rows between depths, so they are in the
// workspace of LOSS.
#pragma once

#include <vector>

#include "engine/nn/block.h"
#include "engine/nn/embedding.h"
#include "engine/nn/linear.h"
#include "engine/nn/lm_head_loss.h"

namespace hawser::nn {

class AheadLoss final : public LmHeadLoss {
 public:
  /// `model` and `local`, this rank's share of blocks, must outlive the module.
  AheadLoss(const ParameterTable& table, const ModelConfig& model, const ModelConfig& local,
            const MoeTraining& moe);

  std::vector<const Balance*> balances() const override;

 protected:
  /// losses: [depths, rows]. ctx.ahead.grad_scales has the scales of their gradients.
  void add_further(const Context& ctx, float* losses, float* dx, const void* x) const override;

 private:
  struct Depth {
    NormLayer hidden_norm, embedding_norm;
    Linear join;
    Block block;
    LmHeadLoss head;
  };
  /// The input s of a depth's block, for all rows, and what its backward reads.
  struct Joined {
    void* n = nullptr;     // what the head before multiplies [rows, C], activation type
    void* e = nullptr;     // embeddings [rows, C], type of the residual stream
    void* both = nullptr;  // the inputs of W [rows, 2C], activation type
    void* s = nullptr;     // [rows, C], with room for the padding of ranks that divide rows
    NormSaved of_n, of_hidden, of_embedding;
  };
  Joined join(const Context& ctx, const Depth& depth, const NormLayer& norm, const void* x) const;
  void join_backward(const Context& ctx, size_t depth, const Joined& joined, const NormLayer& norm, float* dx,
                     const void* x, const float* ds) const;
  void add(const Context& ctx, size_t depth, float* losses, float* dx, const void* x,
           const NormLayer& norm) const;

  Embedding embedding_;
  std::vector<Depth> depths_;
};

}  // namespace hawser::nn
