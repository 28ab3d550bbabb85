// Pipeline stages: divide the model, and determine which chunks a stage has, what is before and after them,
// and the order of its work.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/parallel/pipeline/schedule.h"
#include "engine/plan/stage.h"

namespace hawser::parallel::pipeline {

/// Returns a stage's chunks and actions. `layers`: layers of each chunk in the model's order, stages x chunks
/// entries, each 1 or more.
plan::Stage make_stage(const Shape& shape, const std::vector<int64_t>& layers, int64_t stage);
/// Returns the stage that has each block: 0 embedding, 1..layers blocks, layers + 1 head.
std::vector<int64_t> stage_of_blocks(const Shape& shape, const std::vector<int64_t>& layers);

}  // namespace hawser::parallel::pipeline
