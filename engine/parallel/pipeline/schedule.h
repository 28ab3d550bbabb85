// Pipeline schedules: define in which order each stage works on model chunks and micro-batches. They are pure
// functions of four numbers; plan/serial.h emits the instructions. A rank waits if the input of its next
// action has not arrived.
//
// In every schedule, for each chunk, micro-batches ascend in the forward and in both passes of the backward,
// so gradients are summed in the same order as on one rank (promise L2).
#pragma once

#include <cstdint>
#include <iterator>
#include <string_view>
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

/// How many model chunks a rank has, and where they are in the model.
enum class RankChunks {
  kOne,
  kConfigured,  ///< /pipeline/chunks of them, which take groups of /pipeline/group micro-batches
  kV  ///< two: chunk 0 goes down the stages and chunk 1 comes back up, so the first stage has the model's end
};

/// A schedule and its properties. Config rules, decoding, strategies, proofs and tests read only this.
struct ScheduleRow {
  PipelineSchedule schedule;
  const char* name;  ///< in configs and reports
  RankChunks chunks;
  bool splits_backward;  ///< the input pass and the weight pass of a backward are separate actions
  bool overlaps;         ///< emits pairs: a forward and an input pass that run block by block in turns
  std::vector<plan::Action> (*actions)(const Shape& shape, int64_t stage);
};

// Each schedule has its own file.
std::vector<plan::Action> gpipe(const Shape& shape, int64_t stage);
std::vector<plan::Action> one_forward_one_backward(const Shape& shape, int64_t stage);
std::vector<plan::Action> interleaved(const Shape& shape, int64_t stage);
std::vector<plan::Action> zero_bubble_h1(const Shape& shape, int64_t stage);
std::vector<plan::Action> zero_bubble_v(const Shape& shape, int64_t stage);
std::vector<plan::Action> dual_pipe_v(const Shape& shape, int64_t stage);

/// All schedules, in the order of PipelineSchedule.
inline constexpr ScheduleRow kSchedules[] = {
    {PipelineSchedule::kGpipe, "gpipe", RankChunks::kOne, false, false, gpipe},
    {PipelineSchedule::k1F1B, "1f1b", RankChunks::kOne, false, false, one_forward_one_backward},
    {PipelineSchedule::kInterleaved, "interleaved", RankChunks::kConfigured, false, false, interleaved},
    {PipelineSchedule::kZbH1, "zb_h1", RankChunks::kOne, true, false, zero_bubble_h1},
    {PipelineSchedule::kZbv, "zbv", RankChunks::kV, true, false, zero_bubble_v},
    {PipelineSchedule::kDualPipeV, "dualpipev", RankChunks::kV, true, true, dual_pipe_v},
};

constexpr const ScheduleRow& row_of(PipelineSchedule schedule) {
  return kSchedules[static_cast<size_t>(schedule)];
}
static_assert(
    [] {
      for (size_t i = 0; i < std::size(kSchedules); ++i)
        if (kSchedules[i].schedule != static_cast<PipelineSchedule>(i)) return false;
      return true;
    }(),
    "row_of finds a schedule's row by its number");

constexpr const char* schedule_name(PipelineSchedule s) { return row_of(s).name; }
/// True if a rank has several chunks.
constexpr bool has_chunks(PipelineSchedule s) { return row_of(s).chunks != RankChunks::kOne; }
constexpr bool has_configured_chunks(PipelineSchedule s) {
  return row_of(s).chunks == RankChunks::kConfigured;
}
constexpr bool is_v(PipelineSchedule s) { return row_of(s).chunks == RankChunks::kV; }
constexpr bool splits_backward(PipelineSchedule s) { return row_of(s).splits_backward; }
constexpr bool overlaps(PipelineSchedule s) { return row_of(s).overlaps; }

/// Returns the schedule of that name; nullptr if there is none.
const ScheduleRow* find_schedule(std::string_view name);
/// Returns the names of the schedules with a property, in their order.
std::vector<std::string_view> schedule_names(bool (*has_property)(PipelineSchedule));

/// Returns the position of a rank's chunk in the model's order.
int64_t place_of(const Shape& shape, int64_t stage, int64_t chunk);
/// The inverse of place_of: returns the stage that has the chunk at `place` in the model's order.
int64_t stage_at(const Shape& shape, int64_t place);
/// Returns the actions of a rank, in order.
std::vector<plan::Action> actions(const Shape& shape, int64_t stage);

}  // namespace hawser::parallel::pipeline
