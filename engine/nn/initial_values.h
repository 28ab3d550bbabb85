// Initial values: fills weights with random values keyed by (seed, parameter name, global element index), so
// they do not depend on layout or thread count.
#pragma once

#include <cstdint>

#include "engine/base/stream.h"
#include "engine/nn/parameter.h"

namespace hawser::nn {

/// The uses of a parameter's random numbers. The values are part of the random key, so they must never
/// change.
enum class RandomUse : uint64_t { kInitialValues = 1, kRounding = 2 };
uint64_t random_key(uint64_t seed, const Parameter& p, RandomUse use);

/// Fills weights[end - begin] (f32) with elements [begin, end) of one parameter, by the Box-Muller formula on
/// Philox words, or uniformly. Elements 4i..4i+3 come from counter i.
void fill_initial(float* weights, const Parameter& p, int64_t begin, int64_t end, double std, uint64_t seed,
                  Stream& stream);

}  // namespace hawser::nn
