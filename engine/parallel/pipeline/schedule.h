// Schedules of a pipeline: in which order each stage works on chunks of the model and micro-batches. They are
// pure functions of four numbers; plan/serial.h lays down the instructions. A rank waits when what its next
// action needs has not come.
//
// In every schedule, for each chunk, micro-batches ascend in the forward and in both halves of the backward:
// gradients are then summed in the same order as on one rank (promise L2).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/parallel/parallel_config.h"
#include "engine/plan/stage.h"

namespace hawser::parallel::pipeline {

struct Shape {
  PipelineSchedule schedule = PipelineSchedule::k1F1B;
  int64_t stages = 1;
  int64_t micro_batches = 1;  ///< V schedules: 2 stages or more
  int64_t chunks = 1;  ///< on each rank: 2 or more if interleaved, exactly 2 for the V schedules, else 1
  int64_t group = 1;   ///< interleaved: micro-batches that a chunk takes in a row, stages or more
};

const char* schedule_name(PipelineSchedule schedule);
/// Whether chunk 0 goes down the stages and chunk 1 comes back up, so that the first stage also has the
/// model's end.
bool is_v(PipelineSchedule schedule);
/// Whether the two halves of a backward are actions of their own.
bool splits_backward(PipelineSchedule schedule);

/// The position, in the model's order, of a rank's chunk.
int64_t place_of(const Shape& shape, int64_t stage, int64_t chunk);
/// What a rank works on, in order.
std::vector<plan::Action> actions(const Shape& shape, int64_t stage);

// One file each.
std::vector<plan::Action> gpipe(const Shape& shape, int64_t stage);
std::vector<plan::Action> one_forward_one_backward(const Shape& shape, int64_t stage);
std::vector<plan::Action> interleaved(const Shape& shape, int64_t stage);
std::vector<plan::Action> zero_bubble_h1(const Shape& shape, int64_t stage);
std::vector<plan::Action> zero_bubble_v(const Shape& shape, int64_t stage);
std::vector<plan::Action> dual_pipe_v(const Shape& shape, int64_t stage);

}  // namespace hawser::parallel::pipeline
