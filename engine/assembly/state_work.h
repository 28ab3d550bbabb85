// The work of a block's GRAD_NORM and OPTIMIZER_STEP on one rank, counted by running the optimizer with
// kernels that compute nothing.
#pragma once

#include "engine/config/resolved_config.h"
#include "engine/nn/model.h"
#include "engine/parallel/shard_layout.h"
#include "engine/plan/serial.h"

namespace hawser::train {

/// Fills the work of every block, and the sizes of what it needs. `kernels`, `workers`: those of the device.
void add_state_work(plan::Sizes* sizes, const nn::Model& model, const config::ResolvedConfig& config,
                    const parallel::ShardLayout& layout, const kernels::KernelTable& kernels,
                    int32_t workers);

}  // namespace hawser::train
