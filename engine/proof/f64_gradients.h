// The gradient of a global batch, computed in f64 by the model as the papers write it: what layouts of ranks
// and one rank both round to f32 or bf16. Slow: for the small models of a proof.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/proof/reference_model.h"

namespace hawser::train {

/// d (mean loss and losses of routers) / d weights, both in the flat layout (FlatLayout). Dropout is that of
/// samples numbered from 0; `seed` is the config's. `*router_margin`, if wanted, receives the least margin of
/// any choice of experts (ReferenceRoute::margin).
std::vector<double> f64_gradients(const nn::ModelConfig& model, const nn::ParameterTable& table,
                                  const std::vector<double>& weights, const ReferenceBatch& batch,
                                  uint64_t seed, const nn::MoeTraining& moe = {},
                                  double* router_margin = nullptr);

}  // namespace hawser::train
