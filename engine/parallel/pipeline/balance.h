// Divides a model's layers among the chunks of a pipeline, so that the slowest chunk is as fast as it can be.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace hawser::parallel::pipeline {

/// The number of layers of each of `chunks` chunks, at least one. `layers` are the costs of the layers,
/// `embedding` and `head` are added to those of the first and the last chunk; all >= 0. The largest cost of a
/// chunk is the least possible, and the others are as even as that allows. Needs chunks <= layers. Time:
/// layers x (64 + chunks).
std::vector<int64_t> balance(std::span<const double> layers, double embedding, double head, int64_t chunks);

}  // namespace hawser::parallel::pipeline
