// Pipeline shrinking: reduces the layers, stages and micro-batches of a config in proportion, for a proof.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/config/resolved_config.h"

namespace hawser::train {

/// The pipeline of the shrunk config.
struct SmallPipeline {
  int64_t stages = 1;
  std::vector<int64_t> layers;  ///< of each chunk, in the model's order; a model without stages is one chunk
  std::vector<int64_t> given;   ///< layers of each chunk of the given config, as the planner divides them
  int64_t group = 0;            ///< micro-batches that a chunk takes in a row; 0: not given
  int64_t micro_batches = 1;

  int64_t all_layers() const;
};

/// Keeps at most eight stages, and the first and last chunks of the model. Chunks up to a few layers keep
/// their sizes. Larger chunks keep the differences of their sizes. If the micro-batches filled the pipeline
/// twice, they still do, with the same remainder.
SmallPipeline shrink_pipeline(const config::ResolvedConfig& config);

}  // namespace hawser::train
