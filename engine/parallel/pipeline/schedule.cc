#include "engine/parallel/pipeline/schedule.h"

#include "engine/base/error.h"

namespace hawser::parallel::pipeline {

const char* schedule_name(PipelineSchedule schedule) {
  return kPipelineScheduleNames[static_cast<size_t>(schedule)];
}

bool is_v(PipelineSchedule schedule) {
  return schedule == PipelineSchedule::kZbv || schedule == PipelineSchedule::kDualPipeV;
}

bool splits_backward(PipelineSchedule schedule) {
  return schedule == PipelineSchedule::kZbH1 || is_v(schedule);
}

int64_t place_of(const Shape& shape, int64_t stage, int64_t chunk) {
  if (is_v(shape.schedule)) return chunk == 0 ? stage : 2 * shape.stages - 1 - stage;
  return chunk * shape.stages + stage;
}

std::vector<plan::Action> actions(const Shape& shape, int64_t stage) {
  switch (shape.schedule) {
    case PipelineSchedule::kGpipe:
      return gpipe(shape, stage);
    case PipelineSchedule::k1F1B:
      return one_forward_one_backward(shape, stage);
    case PipelineSchedule::kInterleaved:
      return interleaved(shape, stage);
    case PipelineSchedule::kZbH1:
      return zero_bubble_h1(shape, stage);
    case PipelineSchedule::kZbv:
      return zero_bubble_v(shape, stage);
    case PipelineSchedule::kDualPipeV:
      return dual_pipe_v(shape, stage);
  }
  fail(Code::kInternal, "no schedule {}", static_cast<int>(shape.schedule));
}

}  // namespace hawser::parallel::pipeline
