#include "engine/parallel/pipeline/schedule.h"

namespace hawser::parallel::pipeline {

const ScheduleRow* find_schedule(std::string_view name) {
  for (const ScheduleRow& row : kSchedules)
    if (name == row.name) return &row;
  return nullptr;
}

std::vector<std::string_view> schedule_names(bool (*has_property)(PipelineSchedule)) {
  std::vector<std::string_view> names;
  for (const ScheduleRow& row : kSchedules)
    if (has_property(row.schedule)) names.push_back(row.name);
  return names;
}

int64_t place_of(const Shape& shape, int64_t stage, int64_t chunk) {
  if (is_v(shape.schedule)) return chunk == 0 ? stage : 2 * shape.stages - 1 - stage;
  return chunk * shape.stages + stage;
}

int64_t stage_at(const Shape& shape, int64_t place) {
  if (is_v(shape.schedule) && place >= shape.stages) return 2 * shape.stages - 1 - place;
  return place % shape.stages;
}

std::vector<plan::Action> actions(const Shape& shape, int64_t stage) {
  return row_of(shape.schedule).actions(shape, stage);
}

}  // namespace hawser::parallel::pipeline
