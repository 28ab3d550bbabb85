// expert_loads: a function that summarizes the router counts of a step for the metrics, layer by layer:
// expert load, dropped choices, and the routers' losses, which the reported loss does not include.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/base/json_fwd.h"
#include "engine/nn/model_config.h"

namespace hawser::train {

/// The amount of data that the routers of a layer process in a step.
struct StepRows {
  int64_t rows = 0, positions = 0;  ///< sequences, and positions of each
  int64_t calls = 0;                ///< router calls: micro-batches times the ranks that divide each
};

/// `tallies` has the layout of nn/moe/balance.h and is summed over all ranks. Returns, for each sparse layer:
/// the loads of the busiest and the idlest expert, divided by the mean load; the number of experts without a
/// token; the mean number of rounds per call; the share of choices that were dropped; the balance loss (1 if
/// balanced) and the mean square of the log-sum-exp, both without their weights. Returns null for a dense
/// model.
OrderedJson expert_loads(const nn::ModelConfig& model, const std::vector<int64_t>& tallies,
                         const StepRows& step);

}  // namespace hawser::train
