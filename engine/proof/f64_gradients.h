// f64 gradients: computes the gradient of a global batch in f64, with the model as the papers write it. A
// layout of ranks and one rank both approximate this gradient in f32 or bf16. The computation is slow; it is
// for the small models of a proof.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/proof/reference_model.h"

namespace hawser::train {

/// Returns d (mean loss + losses of routers) / d weights. Weights and gradients have the flat layout
/// (FlatLayout). Dropout is that of samples numbered from 0; `seed` is the config's. `*router_margin`, if not
/// null, receives the least margin of any choice of experts (ReferenceRoute::margin).
std::vector<double> f64_gradients(const nn::ModelConfig& model, const nn::ParameterTable& table,
                                  const std::vector<double>& weights, const ReferenceBatch& batch,
                                  uint64_t seed, const nn::MoeTraining& moe = {},
                                  double* router_margin = nullptr);

}  // namespace hawser::train
