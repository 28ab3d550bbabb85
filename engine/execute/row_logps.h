// Sums the log-probability of an answer over its row's targets. The sum is exact, so it does not depend on
// which rank adds which targets. If the model ends in a score, the row has one target and the sum is the
// score.
#pragma once

#include <cstdint>

#include "engine/base/exact_sum.h"

namespace hawser::train {

/// Adds the log-probabilities of `count` targets, which are their negated losses. Masked targets (-100) add
/// nothing.
inline void add_logps(ExactSum* sum, const float* losses, const int32_t* targets, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    if (targets[i] != -100) sum->add(-static_cast<double>(losses[i]));
  sum->normalise();
}

}  // namespace hawser::train
