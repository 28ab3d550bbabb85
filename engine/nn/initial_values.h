// Initial weights: normal values keyed by (seed, parameter name, global element index), so that they do not
// depend on any layout or thread count.
#pragma once

#include <cstdint>

#include "engine/base/stream.h"
#include "engine/nn/parameter.h"

namespace hawser::nn {

/// What random numbers of a parameter are for; part of their key, never renumbered.
enum class RandomUse : uint64_t { kInitialValues = 1, kRounding = 2 };
uint64_t random_key(uint64_t seed, const Parameter& p, RandomUse use);

/// weights[end - begin] f32: elements [begin, end) of one parameter. Box-Muller on Philox words: element
/// 4i..4i+3 from counter i.
void fill_initial(float* weights, const Parameter& p, int64_t begin, int64_t end, double std, uint64_t seed,
                  Stream& stream);

}  // namespace hawser::nn
