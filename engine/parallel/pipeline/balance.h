// Pipeline balance: divides a model's layers among the chunks so that the slowest chunk is as fast as
// possible.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace hawser::parallel::pipeline {

/// Returns the number of layers of each of `chunks` chunks, at least one. `layers` are the costs of the
/// layers; `embedding` and `head` are added to the cost of the first and the last chunk; all costs are >= 0.
/// The largest cost of a chunk is the least possible, and the others are as even as that allows. Requires
/// chunks <= layers. Time: layers x (64 + chunks).
std::vector<int64_t> balance(std::span<const double> layers, double embedding, double head, int64_t chunks);

}  // namespace hawser::parallel::pipeline
