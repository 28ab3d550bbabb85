// Head: the last module of a model. All heads begin with the final norm and work on chunks of rows, so that
// no wide tensor is ever stored in full. LmHeadLoss computes logits and their cross entropy, ScoreHead one
// number for each row.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/nn/context.h"
#include "engine/nn/model_config.h"
#include "engine/nn/moe/balance.h"
#include "engine/nn/norm.h"
#include "engine/nn/parameter.h"

namespace hawser::nn {

class Head {
 public:
  virtual ~Head() = default;

  /// Returns the rows of one chunk. They depend only on the model and the backend, so results do not depend
  /// on the batch.
  virtual int64_t chunk_rows(const Context& ctx) const = 0;

  /// Computes losses[rows] (f32, per token; those of prediction depths follow), dx[local rows, C] (f32,
  /// overwritten) and the gradients of norm and head, from x[local rows, C], ctx.targets_BT and
  /// ctx.weights_BT. *grad_scale multiplies the gradients.
  virtual void forward_backward(const Context& ctx, float* losses, float* dx, const StreamInput& x,
                                const float* grad_scale) const = 0;
  /// Computes losses[rows] only.
  virtual void forward(const Context& ctx, float* losses, const StreamInput& x) const = 0;
  /// Computes logits[rows, outputs] (f32) from `rows` rows of whole_rows.
  virtual void logits(const Context& ctx, float* logits, const void* x, int64_t rows) const = 0;

  /// Returns what balances the routers of blocks in the head.
  virtual std::vector<const Balance*> balances() const { return {}; }

  /// Returns all rows of x, gathered from each rank's local rows; in the workspace if there are several
  /// ranks.
  const void* whole_rows(const Context& ctx, const void* x) const;
  /// Does the same for a stream or a sum. A sum is computed first, unless normalise can compute it by chunks.
  StreamInput whole_rows(const Context& ctx, const StreamInput& x) const;
  /// Takes workspace for the logits of one chunk of `rows` rows.
  float* take_logits(const Context& ctx, int64_t rows) const;

 protected:
  /// `model` must outlive the module.
  Head(const ParameterTable& table, const ModelConfig& model, const std::string& weight,
       const std::string& norm = "final_norm");

  /// A chunk of rows after the norm.
  struct Rows {
    int64_t begin, count;
    void* n;          // normalised x [rows, C]
    NormSaved saved;  // its statistics
  };
  Rows take_rows(const Context& ctx, int64_t begin, int64_t count) const;
  void normalise(const Context& ctx, const Rows& rows, const StreamInput& x) const;
  /// Computes dx of these rows, from the gradient of n (activation type).
  void normalise_backward(const Context& ctx, const Rows& rows, float* dx, const void* dn,
                          const void* x) const;
  int64_t rows_of_chunk(const Context& ctx, int64_t begin) const;
  /// Copies the local rows of the gradient to `own`, because every rank has the gradient of all rows.
  void keep_own_rows(const Context& ctx, float* own, const float* whole) const;

  const ModelConfig& model_;
  const NormLayer norm_;
  const Place weight_;
};

/// Creates the head that the model's config selects. `local` is this rank's share of blocks (local_model).
std::unique_ptr<const Head> make_head(const ParameterTable& table, const ModelConfig& model,
                                      const ModelConfig& local, const MoeTraining& moe);

}  // namespace hawser::nn
