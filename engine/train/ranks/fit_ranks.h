// The same run on another number of ranks: what of its config changes, and what must not.
#pragma once

#include <cstdint>

#include "engine/config/config_tree.h"

namespace hawser::train {

/// `config` for `ranks` data-parallel ranks, with the same rows in every step, so that the stream of samples
/// stays what it was. /mesh: copies of the model (dp_replicate) and shards (dp_shard) each take all ranks if
/// they were alone; of both, dp_shard stays as long as it divides `ranks`, else all ranks share one copy.
/// /batch: the largest micro_batch up to the config's own that divides a rank's rows; grad_accum_steps is the
/// rest. One rank has nothing to share: /zero/stage becomes 0. Depends on `config` and `ranks` alone, so it
/// is always asked of the config as the user wrote it, never of a result.
/// Throws kConfigInvalid where `ranks` cannot share the rows equally (with the nearest numbers that can), or
/// with all that the config then contradicts; and what is wrong with `config` as it is.
config::ConfigTree fit_ranks(const config::ConfigTree& config, int64_t ranks);

}  // namespace hawser::train
