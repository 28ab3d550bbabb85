// Rerouted choices: counts choices of experts in which two runs of the same rows differ. If scores are nearly
// equal, rounding decides, so ranks that sum in another order than one rank may choose other experts. Their
// gradients then differ by more than rounding.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/nn/moe/balance.h"

namespace hawser::train {

/// Returns the least number of choices that must differ, given the loads of all experts in both runs. `ranks`
/// and `one` are the tallies of a step (nn/moe/balance.h).
inline int64_t rerouted_choices(const nn::ModelConfig& model, const int64_t* ranks, const int64_t* one) {
  int64_t moved = 0;
  for (int64_t layer = 0; layer < nn::sparse_layers(model); ++layer)
    for (int64_t e = 0; e < model.moe.experts; ++e) {
      const int64_t at = layer * nn::tally_words(model.moe) + e;
      moved += std::max<int64_t>(0, ranks[at] - one[at]);
    }
  return moved;
}

}  // namespace hawser::train
