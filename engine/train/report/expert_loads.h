// What the routers of a step counted, layer by layer, for metrics: load of experts, dropped choices, and the routers' losses,
// which stand apart from the loss.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/base/json.h"
#include "engine/nn/model_config.h"

namespace hawser::train {

/// `tallies` as nn/moe/balance.h has them, over all ranks; `step` rows of `positions`. For each sparse layer: the loads of
/// its busiest and idlest expert, over their mean; how many experts had no token; the share of choices that were dropped; the
/// balance loss, 1 in balance, and the mean square of the log-sum-exp, both without their weights. Null for a dense model.
OrderedJson expert_loads(const nn::ModelConfig& model, const std::vector<int64_t>& tallies, int64_t rows,
                         int64_t positions);

}  // namespace hawser::train
