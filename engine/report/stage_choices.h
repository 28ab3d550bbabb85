// StageChoices: the memory and traffic of a config under each ZeRO stage and reduce policy, for the plan
// report to print side by side.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/json.h"
#include "engine/parallel/parallel_config.h"
#include "engine/plan/plan.h"

namespace hawser::train {

/// This config under one stage and reduce policy.
struct StageChoice {
  int64_t stage = 0;
  parallel::ReducePolicy reduce = parallel::ReducePolicy::kPerStep;
  bool chosen = false;
  plan::MemoryByCategory at_peak{};
  int64_t peak_bytes = 0, sent_bytes = 0;
  int64_t bytes(plan::Category c) const { return at_peak[static_cast<size_t>(c)]; }
};

/// Returns a table; empty without choices.
std::string stages_text(const std::vector<StageChoice>& choices);
OrderedJson stage_json(const StageChoice& choice);

}  // namespace hawser::train
