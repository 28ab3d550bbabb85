// The log-probability of an answer: the sum over its row's targets, exact, so that it does not matter who
// adds which of them. Of a model that ends in a score it is the score, of the one target that the row has.
#pragma once

#include <cstdint>

#include "engine/base/exact_sum.h"

namespace hawser::train {

/// Adds those of `count` targets, from their losses. A masked target (-100) has none.
inline void add_logps(ExactSum* sum, const float* losses, const int32_t* targets, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    if (targets[i] != -100) sum->add(-static_cast<double>(losses[i]));
  sum->normalise();
}

}  // namespace hawser::train
