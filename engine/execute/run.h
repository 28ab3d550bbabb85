// Run: the inputs and results of one execution of a plan.
#pragma once

#include <cstdint>

#include "engine/base/exact_sum.h"
#include "engine/execute/batch_source.h"

namespace hawser::train {

struct Run {
  BatchSource* source = nullptr;
  int64_t batch = 0, seq = 0;  ///< rows and columns of each micro-batch; at most the planned size
  bool training = false;
  bool documents = false;           ///< kv_begin matters
  bool weights = false;             ///< targets have weights
  bool pairs = false;               ///< the objective is over pairs of rows (training)
  bool divides = true;              ///< losses by the number of unmasked targets (training)
  bool cancelled = false;           ///< in: this process was asked to stop; out: any was (training only)
  float* logits = nullptr;          ///< destination of kLogits; in generation only the last row
  bool wants_token_losses = false;  ///< evaluation: some rank wants each target's loss
  float* token_losses = nullptr;    ///< this rank's destination of them, [batch, seq]; null: none
  int64_t cached = -1;              ///< positions already in the caches (generation); -1: no caches
  // Results.
  int64_t tokens = 0;  ///< unmasked targets: of all ranks in training, of this rank in evaluation
  ExactSum losses;     ///< of this rank (evaluation)
  double loss_sum = 0, grad_norm = 0;  ///< of all ranks (training)
};

}  // namespace hawser::train
