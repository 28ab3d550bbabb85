// Pipeline shrinking: the small pipeline (parallel/pipeline/small_pipeline.h) that stands for that of a
// config in a proof.
#pragma once

#include "engine/config/resolved_config.h"
#include "engine/parallel/pipeline/small_pipeline.h"

namespace hawser::train {

/// `micro_batches`: of one step; one of config.batch.all_micro_batches().
parallel::pipeline::SmallPipeline shrink_pipeline(const config::ResolvedConfig& config,
                                                  int64_t micro_batches);

}  // namespace hawser::train
