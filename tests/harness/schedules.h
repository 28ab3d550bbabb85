// Pipeline schedules by the names that configs give them, so that a new row of the engine's table is tested
// without a change here.
#pragma once

#include <string>
#include <vector>

#include "engine/base/error.h"
#include "engine/parallel/pipeline/schedule.h"

namespace hawser::testing {

/// Returns the names of all schedules.
inline std::vector<std::string> all_schedules() {
  std::vector<std::string> names;
  for (const auto& row : parallel::pipeline::kSchedules) names.push_back(row.name);
  return names;
}

/// Returns the names of the schedules with this many chunks on each rank.
inline std::vector<std::string> schedules_of(parallel::pipeline::RankChunks chunks) {
  std::vector<std::string> names;
  for (const auto& row : parallel::pipeline::kSchedules)
    if (row.chunks == chunks) names.push_back(row.name);
  return names;
}

inline const parallel::pipeline::ScheduleRow& schedule_row(const std::string& name) {
  const auto* row = parallel::pipeline::find_schedule(name);
  HWS_CHECK(row != nullptr);
  return *row;
}

/// True if /pipeline/chunks says how many chunks a rank has. It must then be 2 or more.
inline bool has_configured_chunks(const std::string& name) {
  return schedule_row(name).chunks == parallel::pipeline::RankChunks::kConfigured;
}

/// Returns the value for Layout::chunks: `several` if the schedule takes the key /pipeline/chunks, else 1.
inline int64_t chunks_of(const std::string& name, int64_t several = 2) {
  return has_configured_chunks(name) ? several : 1;
}

}  // namespace hawser::testing
