// Shrinks the pipeline of a config for a proof: fewer layers, stages and micro-batches, in the same proportions.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/config/resolved_config.h"

namespace hawser::train {

/// The pipeline of the shrunk config.
struct SmallPipeline {
  int64_t stages = 1;
  std::vector<int64_t> layers;  ///< of each chunk, in the model's order; a model without stages is one chunk
  std::vector<int64_t> given;   ///< those of the config, as the planner divides them
  int64_t group = 0;            ///< micro-batches that a chunk takes in a row; 0: none was given
  int64_t micro_batches = 1;

  int64_t all_layers() const;
};

/// At most eight stages, with the first and last chunks of the model. Chunks keep their sizes up to a few layers,
/// larger ones their differences. The micro-batches fill the pipeline twice, if they did, with the same rest.
SmallPipeline shrink_pipeline(const config::ResolvedConfig& config);

}  // namespace hawser::train
