// Run: the inputs and results of one execution of a plan.
#pragma once

#include <array>
#include <cstdint>

#include "engine/base/exact_sum.h"
#include "engine/execute/batch_source.h"
#include "engine/nn/model_config.h"

namespace hawser::train {

/// Receives logits in pieces, so that the logits of a micro-batch are never stored in full.
class LogitsReader {
 public:
  virtual ~LogitsReader() = default;
  /// Returns memory for a piece.
  virtual float* room(int64_t elements) = 0;
  /// Takes the logits [vocabulary] of a position of the micro-batch.
  virtual void take(int64_t row, int64_t column, const float* logits) = 0;
};

struct Run {
  BatchSource* source = nullptr;
  /// Rows and columns of each micro-batch; at most the planned size. In training a micro-batch may have fewer
  /// columns (BatchSource::columns).
  int64_t batch = 0, seq = 0;
  bool training = false;
  int64_t step_rows = 1;   ///< training: rows of the step, on all ranks
  bool documents = false;  ///< rows have several documents, so kv_begin is used
  bool weights = false;    ///< targets have weights
  bool mean_loss = true;   ///< training: gradients are divided by the number of unmasked targets
  double loss_scale = 1;   ///< training: factor of all gradients, but not of losses and norms
  /// Training: the update phase follows the gradient phase at once, so that transfers which cross the border
  /// (Plan::crosses) may still run when the gradient phase ends.
  bool update_follows = false;
  bool cancelled = false;                 ///< training: in: this process must stop; out: some process must
  float* logits = nullptr;                ///< destination of kLogits; in generation only the last row
  LogitsReader* logits_reader = nullptr;  ///< receives those of kLogits instead of `logits`
  bool wants_token_losses = false;        ///< evaluation: some rank wants each target's loss
  float* token_losses = nullptr;          ///< [batch, seq]: destination of this rank's; null: none
  int64_t cached = -1;                    ///< positions already in the caches (generation); -1: no caches
  // Results.
  int64_t tokens = 0;  ///< unmasked targets: of all ranks in training, of this rank in evaluation
  /// Training: the unmasked targets of each prediction depth, and the sum of their losses, of all ranks.
  std::array<int64_t, nn::kMostAhead> ahead_tokens{};
  std::array<double, nn::kMostAhead> ahead_losses{};
  ExactSum losses;                     ///< evaluation: of this rank; training: of all ranks
  double loss_sum = 0, grad_norm = 0;  ///< training: of all ranks
};

}  // namespace hawser::train
