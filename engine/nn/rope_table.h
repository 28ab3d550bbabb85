// Rope table: the table of rotary angles (RoPE), with the scalings that published models use. If layers with
// a window use another base, a second table for them follows the first.
#pragma once

#include <cstdint>

#include "engine/nn/model_config.h"

namespace hawser::nn {

/// Fills cos_sin: f32 [positions, rope_dim / 2, 2] = (cos, sin) * attention factor, with angles in fp64.
/// Scalings: none, linear (Chen et al., arXiv 2306.15595), llama3 (frequency bands, Llama 3.1), YaRN (Peng et
/// al., arXiv 2309.00071). With window_theta a second table follows, for layers with a window.
void fill_rope_table(float* cos_sin, const ModelConfig& model, int64_t positions);

/// Returns the angle per position of the pair of elements j of a head with `head_dim` rotated elements, with
/// the scaling.
double rope_frequency(int64_t j, int64_t head_dim, const RopeConfig& rope);

/// Returns YaRN's 0.1 mscale ln(factor) + 1. Latent attention multiplies its scores by the square of this
/// value for mscale_all_dim.
double yarn_mscale(double factor, double mscale);

/// Returns the elements of both tables; 0 if the model has no rotary positions.
int64_t rope_table_size(const ModelConfig& model, int64_t positions);
/// Returns the element at which the table of a layer begins.
int64_t rope_table_begin(const ModelConfig& model, int64_t layer, int64_t positions);

}  // namespace hawser::nn
