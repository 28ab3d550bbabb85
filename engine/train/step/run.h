// Run: one execution of a plan: what goes in beside the plan, and what comes out.
#pragma once

#include <cstdint>

#include "engine/base/exact_sum.h"
#include "engine/train/step/batch_source.h"

namespace hawser::train {

struct Run {
  BatchSource* source = nullptr;
  int64_t batch = 0, seq = 0;  ///< of each micro-batch; at most the planned sizes
  bool training = false;
  bool documents = false;   ///< kv_begin matters
  bool cancelled = false;   ///< in: here; out: on any rank (training only)
  float* logits = nullptr;  ///< kLogits: where they go; in generation those of the last row only
  int64_t cached = -1;      ///< generation: positions in the caches already; -1: no caches
  // Results.
  int64_t tokens = 0;  ///< adds up unmasked targets: training, of all ranks; evaluation, of this one
  ExactSum losses;     ///< evaluation: of this rank
  double loss_sum = 0, grad_norm = 0;  ///< training: of all ranks

  int64_t rows() const { return batch * seq; }
};

}  // namespace hawser::train
