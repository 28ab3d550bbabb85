// Recompute: activation recomputation (Chen et al., arXiv:1604.06174; Korthikanti et al., arXiv:2205.05198,
// section 5). Blocks discard some activations after their forward pass, and RECOMPUTE rebuilds them before
// their backward pass; no result changes. This file turns the policy into what blocks discard
// (nn/recompute_set.h) and into the segments of blocks that are rebuilt together, which the plan builder
// executes (plan/stage.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/parallel/parallel_config.h"
#include "engine/plan/serial.h"

namespace hawser::parallel {

enum class RecomputePolicy { kOff, kFull, kSelective, kEvery };

/// `arrays`: of kSelective, names of "qkv", "attention" and "mlp_hidden"; empty: the last. `every`: of
/// kEvery, blocks that are recomputed together, of which only the first keeps its input.
RecomputeConfig recompute_config(RecomputePolicy policy, const std::vector<std::string>& arrays,
                                 int64_t every);

/// `arrays`: names of "qkv", "attention" and "mlp_hidden" that blocks save as records of fp8.
nn::CompressSet compress_set(const std::vector<std::string>& arrays);

/// Adds the segments of a stage; none if nothing is recomputed.
void add_recompute_segments(const RecomputeConfig& config, const plan::Sizes& sizes, plan::Stage* stage);

}  // namespace hawser::parallel
