// What the routers of a step counted, layer by layer, for metrics: load of experts, dropped choices, and the
// routers' losses, which stand apart from the loss.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/base/json_fwd.h"
#include "engine/nn/model_config.h"

namespace hawser::train {

/// What the routers of a layer see in a step.
struct StepRows {
  int64_t rows = 0, positions = 0;  ///< of each row
  int64_t calls = 0;                ///< micro-batches, each as often as ranks divide it
};

/// `tallies` as nn/moe/balance.h has them, over all ranks. For each sparse layer: the loads of its busiest
/// and idlest expert, over their mean; how many experts had no token; the mean number of rounds of a call;
/// the share of choices that were dropped; the balance loss, 1 in balance, and the mean square of the
/// log-sum-exp, both without their weights. Null for a dense model.
OrderedJson expert_loads(const nn::ModelConfig& model, const std::vector<int64_t>& tallies,
                         const StepRows& step);

}  // namespace hawser::train
