// NF4 weights: writes frozen weights in NF4 (nn/nf4.h) to the ranks' memory and reads them back. Each rank
// has the records of its own elements, and the scales of the full tensor.
#pragma once

#include "engine/nn/nf4.h"
#include "engine/ranks/rank.h"

namespace hawser::train {

/// Returns `numbers`, which were stored as `type`, quantised.
nn::Nf4Tensor quantise(const nn::Parameter& p, const float* numbers, DType type);
/// Writes the part of the tensor that `rank` has.
void write_nf4(const Rank& rank, const nn::Parameter& p, const nn::Nf4Tensor& tensor);
/// Initialises the weights in NF4 by quantising their random initial values.
void draw_nf4(Rank* rank, const nn::ParameterTable& table, const config::ResolvedConfig& config);
/// Reads the weights of a run of elements of p that `rank` has as f32, whether they are in NF4 or not.
void read_weights(const Rank& rank, const nn::Parameter& p, const mesh::ElementRun& run, float* out);

}  // namespace hawser::train
