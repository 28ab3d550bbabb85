#include "engine/plan/pipeline_replay.h"

#include <fmt/format.h>

#include <algorithm>

namespace hawser::plan {

bool StageState::idle() const {
  return std::all_of(queued.begin(), queued.end(), [](const auto& lane) { return lane.empty(); });
}

Lane StageState::waits_for() const {
  for (size_t l = 0; l < kLanes; ++l) {
    const auto lane = static_cast<Lane>(l);
    const bool at_border = at == plan->commit && !queued[l].empty();
    const bool is_awaited = at_border && !plan->crosses(static_cast<size_t>(queued[l].front()));
    if (is_awaited || next().waits_for[lane] > done[lane]) return lane;
  }
  return Lane::kCompute;
}

LaneEnd other_end(size_t stage, Lane lane, size_t stages) {
  const size_t next = (stage + 1) % stages, previous = (stage + stages - 1) % stages;
  switch (lane) {
    case Lane::kXToNext:
      return {next, Lane::kXFromPrevious};
    case Lane::kXFromPrevious:
      return {previous, Lane::kXToNext};
    case Lane::kDxToPrevious:
      return {previous, Lane::kDxFromNext};
    case Lane::kDxFromNext:
      return {next, Lane::kDxToPrevious};
    case Lane::kXToPrevious:
      return {previous, Lane::kXFromNext};
    case Lane::kXFromNext:
      return {next, Lane::kXToPrevious};
    case Lane::kDxToNext:
      return {next, Lane::kDxFromPrevious};
    case Lane::kDxFromPrevious:
      return {previous, Lane::kDxToNext};
    default:  // a table travels between the first and the last stage
      return {stages - 1 - stage, lane};
  }
}

std::string where(const std::vector<StageState>& stages) {
  std::string text;
  for (size_t s = 0; s < stages.size(); ++s) {
    const StageState& stage = stages[s];
    text += fmt::format("{}stage {} ", s > 0 ? "; " : "", s);
    if (stage.ends())
      text += "has finished";
    else
      text += fmt::format("at {} {} waits for {}", stage.at, op_name(stage.next().op),
                          lane_name(stage.waits_for()));
    for (size_t l = 0; l < kLanes; ++l)
      if (!stage.queued[l].empty())
        text += fmt::format(", {} has {}", lane_name(static_cast<Lane>(l)), stage.queued[l].front());
  }
  return text;
}

}  // namespace hawser::plan
