// PairSums: sums of an objective's losses and rewards over held-out pairs. Sums are exact, so they do not
// depend on which rank adds which pair.
#pragma once

#include <cstdint>

#include "engine/base/exact_sum.h"
#include "engine/execute/batch_sources.h"
#include "engine/optim/objective.h"

namespace hawser::train {

/// It consists of int64 words, which ranks sum after `normalise`. Zeroed memory is an empty sum.
struct PairSums {
  ExactSum losses, chosen, rejected;
  ExactSum chosen_logps;  ///< for the term of sft_weight, a mean over the chosen tokens of all pairs
  int64_t chosen_tokens = 0, pairs = 0, half_wins = 0;

  /// Adds pairs of rows. `losses`: the loss of each target, [rows, seq].
  void add(const optim::ObjectiveConfig& objective, const PairsKept& rows, const float* losses);
  void merge(const PairSums& other);
  void normalise();
  double loss(const optim::ObjectiveConfig& objective) const;
  optim::PairRewards rewards() const;

 private:
  void add(const optim::ObjectiveConfig& objective, const optim::Answer& c, const optim::Answer& r);
};

}  // namespace hawser::train
