// PairSums: what an objective says of held-out pairs. Sums are exact, so it does not matter which rank adds
// which pair.
#pragma once

#include <cstdint>

#include "engine/base/exact_sum.h"
#include "engine/execute/batch_sources.h"
#include "engine/optim/objective.h"

namespace hawser::train {

/// Zeroed memory is an empty sum; made of int64 words, which ranks sum after `normalise`.
struct PairSums {
  ExactSum losses, chosen, rejected;
  ExactSum chosen_logps;  ///< for sft_weight, whose mean is over the chosen tokens of all pairs
  int64_t chosen_tokens = 0, pairs = 0, right = 0;

  /// Pairs of rows, from the loss of each target, [rows, seq].
  void add(const optim::ObjectiveConfig& objective, const PairsKept& rows, const float* losses);
  void merge(const PairSums& other);
  void normalise();
  double loss(const optim::ObjectiveConfig& objective) const;
  optim::PairRewards rewards() const;

 private:
  void add(const optim::ObjectiveConfig& objective, const optim::Answer& c, const optim::Answer& r);
};

}  // namespace hawser::train
