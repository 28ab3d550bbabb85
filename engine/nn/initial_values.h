// Initial weights: normal values keyed by (seed, parameter name, global element index), so that they do not
// depend on any layout or thread count.
#pragma once

#include <cstdint>

#include "engine/base/stream.h"
#include "engine/nn/parameter.h"

namespace hawser::nn {

/// weights[p.size] f32 of one parameter. Box-Muller on Philox words: element 4i..4i+3 from counter i.
void fill_initial(float* weights, const Parameter& p, double std, uint64_t seed, Stream& stream);

}  // namespace hawser::nn
