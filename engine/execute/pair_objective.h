// PairObjective: the host's part of a step whose objective is over pairs of answers. A pair is two rows of
// one micro-batch, the chosen one first. LOGPROBS leaves the log-probability of each target; OBJECTIVE sums
// them by row, and writes the weight of each target that LOSS multiplies its gradient with. Sums are exact,
// so neither the ranks that divide rows nor those that share the batch change a bit.
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
    int64_t pairs = 0;                 ///< of a global batch
    int64_t micro_batches = 0;         ///< of this rank
    int64_t rows = 0;                  ///< of a micro-batch
    bool counts = true;                ///< no other rank counts the same pairs
    comm::ProcessGroup* cp = nullptr;  ///< ranks that have the rows' other columns; null if there are none
    comm::ProcessGroup* dp = nullptr;  ///< all ranks; null for one
  };
  explicit PairObjective(const Setup& setup);

  // The calls of a step, in their order. They allocate nothing.

  void begin();
  /// Where the reference's log-probability of each row of a micro-batch goes; null if the objective has none.
  float* references(int32_t micro_batch);
  /// Targets of chosen rows. Throws kDataInvalid if a row has no target.
  int64_t chosen_targets(const MicroBatch& rows) const;
  /// What COUNT_TOKENS counted of them over all ranks.
  void set_chosen_targets(int64_t count) { chosen_targets_ = count; }
  /// OBJECTIVE: own.weights, from the losses (-log-probabilities) of own columns. `rows`: the same
  /// micro-batch, all columns.
  void weigh(int32_t micro_batch, const float* losses, const MicroBatch& rows, const MicroBatch& own);
  /// Sums over all ranks.
  void agree();
  double loss() const;
  optim::PairRewards rewards() const;

  /// int64 numbers that `agree` sums, and that OBJECTIVE sums over context-parallel ranks.
  static constexpr int64_t kAgreedWords = 3 * ExactSum::kWords + 1;
  static int64_t row_words(int64_t rows) { return rows * ExactSum::kWords; }

 private:
  const Setup s_;
  int64_t chosen_targets_ = 0;
  std::vector<float> references_;   // by micro-batch and row
  std::vector<int64_t> row_sums_;   // ExactSum of each row
  std::vector<double> row_weight_;  // of each target of a row
  std::vector<int64_t> sums_;       // loss, chosen and rejected rewards, pairs in the right order
};

}  // namespace hawser::train
