// Rank fitting: adapts the config of a run to another number of ranks without changing the rows of its steps.
#pragma once

#include <cstdint>

#include "engine/config/config_tree.h"

namespace hawser::train {

/// Returns `config` for a world of `world` ranks. The rows of each step stay the same, so the stream of
/// samples does too.
///   /mesh   pp, cp and tp stay; their product must divide `world`. If dp_replicate is 1, dp_shard takes all
///           data-parallel ranks; if only dp_replicate is above 1, it takes them all. If both are above 1,
///           dp_shard keeps its value if it divides their number; otherwise they form one shard group.
///   /batch  micro_batch becomes the largest value up to the config's own that divides a rank's rows;
///           grad_accum_steps follows. With a ramp, every size of a step keeps its rows.
///   /zero   stage becomes 0 for one rank.
/// The result depends only on the arguments, so always pass the config as the user wrote it, never a result.
/// Throws kConfigInvalid if the ranks cannot share the rows equally (the message names the nearest numbers
/// that can), and for any fault of `config` or of the result.
config::ConfigTree fit_ranks(const config::ConfigTree& config, int64_t world);

}  // namespace hawser::train
