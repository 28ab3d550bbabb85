// PairObjective: the host's part of a step whose objective is over pairs of answers. A pair is two rows of
// one micro-batch, the chosen one first. LOGPROBS computes the loss (the negative log-probability) of each
// target. OBJECTIVE sums the log-probabilities by row and writes a weight for each target, by which LOSS
// multiplies the target's gradient. Sums are exact, so they do not depend on how ranks divide rows or batch.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "engine/base/exact_sum.h"
#include "engine/execute/step_objective.h"
#include "engine/optim/objective.h"

namespace hawser::train {

class PairObjective final : public StepObjective {
 public:
  explicit PairObjective(const ObjectiveSetup& setup);

  bool weighs_targets() const override { return true; }
  float* references(int32_t micro_batch) override;
  /// Counts the targets of chosen rows. Throws kDataInvalid if a row has no target.
  int64_t count(const MicroBatch& rows) const override;
  void begin(int64_t chosen_targets, int64_t step_rows) override;
  void apply_objective(int32_t micro_batch, const float* losses, const MicroBatch& rows,
                       const MicroBatch& own) override;
  /// Sums losses and rewards over all ranks; returns the mean loss of pairs.
  double agree(double targets) override;
  optim::PairRewards rewards() const override;

  /// How many int64 numbers `agree` sums over all ranks, and OBJECTIVE over context-parallel ranks.
  static constexpr int64_t kAgreedWords = 3 * ExactSum::kWords + 1;
  static int64_t row_words(int64_t rows) { return rows * ExactSum::kWords; }

 private:
  const ObjectiveSetup s_;
  int64_t chosen_targets_ = 0, pairs_ = 1;  // of the step, on all ranks
  std::vector<float> references_;           // by micro-batch and row
  std::vector<int64_t> row_sums_;           // the ExactSum of each row
  std::vector<double> row_weight_;          // the weight of each target of a row
  std::vector<int64_t> sums_;  // loss, chosen and rejected rewards, pairs whose chosen reward is greater
};

}  // namespace hawser::train
