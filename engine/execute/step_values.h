// The values that a step passes to its kernels and gets from them, as laid out in slots of the arena.
#pragma once

#include <cstdint>

#include "engine/base/exact_sum.h"
#include "engine/nn/local_columns.h"
#include "engine/nn/model_config.h"
#include "engine/nn/moe/balance.h"
#include "kernels/include/optimizer.h"

namespace hawser::train {

/// A teacher's `top` ids at each position and their log-probabilities, [batch, seq, top] each.
struct TeacherRows {
  int64_t top = 0;
  int32_t* ids = nullptr;
  float* logprobs = nullptr;
};

/// The inputs of the depths of multi-token prediction (nn/ahead_loss.h). Each array is [depths, batch, seq]:
/// column t of depth d, counted from 1, has the token, the target or the loss weight of column t + d.
struct AheadRows {
  int64_t depths = 0;
  int32_t* tokens = nullptr;  ///< -1 beyond the document
  int32_t* targets = nullptr;
  float* weights = nullptr;
};

/// The form of micro-batches, which determines the arrays in their slots.
struct MicroBatchForm {
  nn::LocalColumns own = {};
  int64_t top = 0;    ///< ids of a teacher at each position
  int64_t ahead = 0;  ///< depths of multi-token prediction
};

/// One micro-batch in its staging slot. The arrays have the names of nn::Context.
struct MicroBatch {
  int64_t batch = 0, seq = 0;  ///< seq: columns that the arrays have
  int32_t* tokens = nullptr;
  int32_t* targets = nullptr;
  int32_t* positions = nullptr;
  int32_t* kv_begin = nullptr;
  uint64_t* samples = nullptr;
  float* weights = nullptr;  ///< null in a run without weights, which does not send them
  /// Log-probability of each row under the reference. It is never sent; null if not wanted.
  float* references = nullptr;
  int32_t* row_begins = nullptr;  ///< kv_begin of whole rows, padded; null unless ranks divide the columns
  TeacherRows teacher = {};       ///< null in a run without a teacher
  AheadRows ahead = {};           ///< null in a run without prediction depths

  // If ranks divide columns, the arrays above have this rank's columns. The micro-batch of whole rows, as a
  // source loads it, follows them in the slot and is never sent.

  /// Returns the bytes of the slot for rows of `columns`. The slot always has room for weights, 4 bytes a
  /// target, because a host program may push a batch with weights at any step.
  static int64_t bytes(int64_t batch, int64_t columns, const MicroBatchForm& form = {});
  /// Returns how many bytes from the slot's beginning a step sends to its device.
  static int64_t sent_bytes(int64_t batch, int64_t columns, bool weights, const MicroBatchForm& form = {});
  static MicroBatch in_slot(char* slot, int64_t batch, int64_t columns, const MicroBatchForm& form = {});
  /// Returns the micro-batch of whole rows. If one rank has all columns, it is the same as in_slot.
  static MicroBatch whole_rows(char* slot, int64_t batch, int64_t columns, const MicroBatchForm& form);
};

/// Scalars that kernels read and that change from step to step.
struct StepScalars {
  kernels::OptimizerScalars optimizer;
  float grad_scale = 0;  ///< the loss scale, divided by the unmasked targets of the global batch
  float loss_scale = 1;  ///< a power of two (optim/loss_scale.h)
  /// For each prediction depth: the loss scale times its share of the loss, divided by its own targets.
  float ahead_scales[nn::kMostAhead] = {};
  float ahead_share = 0;  ///< the loss scale times the share of one depth
};

/// The sums over ranks, in the slot `norm`.
struct StepSums {
  ExactSum squares, losses;
};

/// Returns how many numbers `ranks` ranks sum in COUNT_TOKENS: one for each of `ahead` depths, and
/// `of_objective` for the objective.
inline int64_t agreement_words(int64_t ranks, int64_t ahead, int64_t of_objective) {
  return 2 + ranks + ahead + of_objective;
}
/// How many numbers all ranks sum in the last GRAD_NORM, besides the noted words.
inline constexpr int64_t kSumsWords = sizeof(StepSums) / sizeof(int64_t);
/// The noted words follow in the same slot, so that one call sums everything: the counts of routers
/// (nn/moe/balance.h), and then for each depth of multi-token prediction the sum of its losses.
inline int64_t* tallies_of(StepSums* sums) { return reinterpret_cast<int64_t*>(sums + 1); }
inline ExactSum* ahead_of(StepSums* sums, int64_t tally_words) {
  return reinterpret_cast<ExactSum*>(tallies_of(sums) + tally_words);
}
inline int64_t noted_words(int64_t tally_words, int64_t ahead) {
  return tally_words + ahead * ExactSum::kWords;
}
inline int64_t noted_words(const nn::ModelConfig& model) {
  return noted_words(nn::all_tally_words(model), model.ahead);
}
inline int64_t sums_bytes(int64_t noted) {
  return static_cast<int64_t>(sizeof(StepSums)) + noted * static_cast<int64_t>(sizeof(int64_t));
}

}  // namespace hawser::train
