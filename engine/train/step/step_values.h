// The values that a step passes to its kernels and gets from them, as laid out in slots of the arena.
#pragma once

#include <cstdint>

#include "engine/base/exact_sum.h"
#include "kernels/include/optimizer.h"

namespace hawser::train {

/// One micro-batch in its staging slot. The arrays have the names of nn::Context.
struct MicroBatch {
  int64_t batch = 0, seq = 0;
  int32_t* tokens = nullptr;
  int32_t* targets = nullptr;
  int32_t* positions = nullptr;
  int32_t* kv_begin = nullptr;
  uint64_t* samples = nullptr;
  float* weights = nullptr;  ///< last in the slot; null: a run without weights, which does not send them
  /// Bytes of the slot for [batch, seq]. It always has room for weights, 4 bytes a target, because a host may
  /// push a batch with weights at any step.
  static int64_t bytes(int64_t batch, int64_t seq);
  /// Bytes at the slot's beginning that a step sends to its device.
  static int64_t sent_bytes(int64_t batch, int64_t seq, bool weights);
  static MicroBatch in_slot(char* slot, int64_t batch, int64_t seq);
};

/// Scalars that kernels read and that change from step to step.
struct StepScalars {
  kernels::OptimizerScalars optimizer;
  float grad_scale = 0;  ///< 1 / unmasked targets of the global batch
};

/// Sums over ranks, and the scratch to compute them: the slot `norm`.
struct StepSums {
  ExactSum squares, losses;
};

/// How many numbers `ranks` ranks sum in COUNT_TOKENS.
inline int64_t agreement_words(int64_t ranks) { return 2 + ranks; }
/// How many numbers they sum in the last GRAD_NORM.
inline constexpr int64_t kSumsWords = sizeof(StepSums) / sizeof(int64_t);

}  // namespace hawser::train
