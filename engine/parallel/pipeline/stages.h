// Pipeline stages: divide the model, and determine which chunks a stage has, what is before and after them,
// and the order of its work.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/parallel/parallel_config.h"
#include "engine/parallel/pipeline/schedule.h"
#include "engine/plan/serial.h"
#include "engine/plan/stage.h"

namespace hawser::parallel::pipeline {

/// Returns a stage's chunks and actions. `layers`: layers of each chunk in the model's order, stages x chunks
/// entries, each 1 or more.
plan::Stage make_stage(const Shape& shape, const std::vector<int64_t>& layers, int64_t stage);
/// Returns the stage that has each block: 0 embedding, 1..layers blocks, layers + 1 head.
std::vector<int64_t> stage_of_blocks(const Shape& shape, const std::vector<int64_t>& layers);

/// Division: how a pipeline divides a model into stages with their chunks. There is one stage without a
/// pipeline.
class Division {
 public:
  /// Layers of each chunk are as the config says, or so that the slowest chunk is as fast as it can be.
  Division(const PipelineConfig& config, int64_t stages, int64_t micro_batches, const plan::Sizes& sizes);

  int64_t stages() const { return shape_.stages; }
  /// The stage that has each block, as from stage_of_blocks; empty for one stage.
  std::vector<int64_t> stage_of() const;
  /// Returns a stage for steps of `micro_batches`. `sent_lifetime_actions`: as in plan::Stage.
  plan::Stage stage(int64_t stage, size_t sent_lifetime_actions, int64_t micro_batches) const;
  /// The least lifetime that is worth trying. A V of many stages always needs this much.
  size_t least_sent_lifetime() const;

 private:
  Shape shape_;
  std::vector<int64_t> layers_;
};

}  // namespace hawser::parallel::pipeline
