// PairObjective: the host's part of a step whose objective is over pairs of answers. A pair is two rows of
// one micro-batch, the chosen one first. LOGPROBS computes the loss (the negative log-probability) of each
// target. OBJECTIVE sums the log-probabilities by row and writes a weight for each target, by which LOSS
// multiplies the target's gradient. Sums are exact, so they do not depend on how ranks divide rows or batch.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "engine/base/exact_sum.h"
#include "engine/comm/process_group.h"
#include "engine/execute/step_values.h"
#include "engine/optim/objective.h"

namespace hawser::train {

class PairObjective {
 public:
  struct Setup {
    optim::ObjectiveConfig objective;
    int64_t pairs = 0;                 ///< in a global batch
    int64_t micro_batches = 0;         ///< of this rank
    int64_t rows = 0;                  ///< in a micro-batch
    bool counts = true;                ///< this rank counts its pairs; else another does
    comm::ProcessGroup* cp = nullptr;  ///< ranks that have the rows' other columns; null if there are none
    comm::ProcessGroup* dp = nullptr;  ///< all ranks; null for a world of one
  };
  explicit PairObjective(const Setup& setup);

  // The calls of a step, in their order. They allocate nothing.

  void begin();
  /// Returns where to store the reference's log-probability of each row of a micro-batch; null if the
  /// objective has no reference.
  float* references(int32_t micro_batch);
  /// Counts the targets of chosen rows. Throws kDataInvalid if a row has no target.
  int64_t chosen_targets(const MicroBatch& rows) const;
  /// Sets the number of targets of chosen rows that COUNT_TOKENS has summed over all ranks.
  void set_chosen_targets(int64_t count) { chosen_targets_ = count; }
  /// OBJECTIVE: computes own.weights from the losses (negative log-probabilities) of this rank's columns.
  /// `rows` is the same micro-batch with all columns.
  void weigh(int32_t micro_batch, const float* losses, const MicroBatch& rows, const MicroBatch& own);
  /// Sums losses and rewards over all ranks.
  void agree();
  double loss() const;
  optim::PairRewards rewards() const;

  /// How many int64 numbers `agree` sums over all ranks, and OBJECTIVE over context-parallel ranks.
  static constexpr int64_t kAgreedWords = 3 * ExactSum::kWords + 1;
  static int64_t row_words(int64_t rows) { return rows * ExactSum::kWords; }

 private:
  const Setup s_;
  int64_t chosen_targets_ = 0;
  std::vector<float> references_;   // by micro-batch and row
  std::vector<int64_t> row_sums_;   // the ExactSum of each row
  std::vector<double> row_weight_;  // the weight of each target of a row
  std::vector<int64_t> sums_;       // loss, chosen and rejected rewards, pairs whose chosen reward is greater
};

}  // namespace hawser::train
