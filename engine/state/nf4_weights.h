// Frozen weights in NF4 (nn/nf4.h): whole tensors to and from the ranks' memory. A rank has its records, and
// the scales of all.
#pragma once

#include "engine/nn/nf4.h"
#include "engine/ranks/rank.h"

namespace hawser::train {

/// Numbers of `type`, quantised.
nn::Nf4Tensor quantise(const nn::Parameter& p, const float* numbers, DType type);
/// Writes what `rank` has of the tensor.
void write_nf4(const Rank& rank, const nn::Parameter& p, const nn::Nf4Tensor& tensor);
/// Quantises the numbers that those in NF4 would begin with.
void draw_nf4(Rank* rank, const nn::ParameterTable& table, const config::ResolvedConfig& config);
/// Reads the weights of a run of elements of p that `rank` has, in NF4 or not, as f32.
void read_weights(const Rank& rank, const nn::Parameter& p, const mesh::ElementRun& run, float* out);

}  // namespace hawser::train
