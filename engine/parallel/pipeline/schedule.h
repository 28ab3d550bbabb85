// Pipeline schedules: define in which order each stage works on model chunks and micro-batches. They are pure
// functions of four numbers; plan/serial.h emits the instructions. A rank waits if the input of its next
// action has not arrived.
//
// In every schedule, for each chunk, micro-batches ascend in the forward and in both passes of the backward,
// so gradients are summed in the same order as on one rank (promise L2).
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
  int64_t chunks = 1;         ///< on each rank: 2 or more if interleaved, 2 for V schedules, else 1
  int64_t group = 1;          ///< interleaved: consecutive micro-batches of a chunk, stages or more
};

const char* schedule_name(PipelineSchedule schedule);
/// True if chunk 0 goes down the stages and chunk 1 comes back up, so that the first stage also has the
/// model's end.
bool is_v(PipelineSchedule schedule);
/// True if the input pass and the weight pass of a backward are separate actions.
bool splits_backward(PipelineSchedule schedule);

/// Returns the position of a rank's chunk in the model's order.
int64_t place_of(const Shape& shape, int64_t stage, int64_t chunk);
/// Returns the actions of a rank, in order.
std::vector<plan::Action> actions(const Shape& shape, int64_t stage);

// Each schedule has its own file.
std::vector<plan::Action> gpipe(const Shape& shape, int64_t stage);
std::vector<plan::Action> one_forward_one_backward(const Shape& shape, int64_t stage);
std::vector<plan::Action> interleaved(const Shape& shape, int64_t stage);
std::vector<plan::Action> zero_bubble_h1(const Shape& shape, int64_t stage);
std::vector<plan::Action> zero_bubble_v(const Shape& shape, int64_t stage);
std::vector<plan::Action> dual_pipe_v(const Shape& shape, int64_t stage);

}  // namespace hawser::parallel::pipeline
