// data_parallel_ranks: the layouts in which tests compare ranks that only share data.
#pragma once

#include <cstdint>

#include "tests/harness/layout_run.h"

namespace hawser::testing {

/// Replicas x shards data-parallel ranks with two micro-batches each. Several ranks add pairs first.
inline Layout data_parallel_ranks(int64_t replicas, int64_t shards, int64_t stage) {
  Layout layout;
  layout.dp_replicate = replicas, layout.dp_shard = shards, layout.stage = stage, layout.accumulation = 2;
  if (layout.dp() > 1) layout.sum_group = 2;
  return layout;
}

}  // namespace hawser::testing
