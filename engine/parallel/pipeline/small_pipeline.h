// Small pipeline: reduces the layers, stages and micro-batches of a pipeline in proportion, so that a small
// model can stand for a large one in a proof.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/parallel/parallel_config.h"

namespace hawser::parallel::pipeline {

struct SmallPipeline {
  int64_t stages = 1;
  std::vector<int64_t> layers;    ///< of each chunk, in the model's order; one chunk without a pipeline
  std::vector<int64_t> given;     ///< layers of each chunk of the given pipeline
  bool configures_chunks = true;  ///< /pipeline/chunks applies to the schedule
  int64_t group = 0;              ///< micro-batches that a chunk takes consecutively; 0: not given
  int64_t micro_batches = 1;

  int64_t all_layers() const;
};

/// Keeps at most eight stages, and the first and last chunks of the model. Chunks up to a few layers keep
/// their sizes. Larger chunks keep the differences of their sizes. If the micro-batches filled the pipeline
/// twice, they still do, with the same remainder. `layers`: of each chunk. `needs_power_of_two`: whether the
/// number of micro-batches must be one.
SmallPipeline small_pipeline(const PipelineConfig& config, int64_t stages, const std::vector<int64_t>& layers,
                             int64_t micro_batches, bool needs_power_of_two);

}  // namespace hawser::parallel::pipeline
