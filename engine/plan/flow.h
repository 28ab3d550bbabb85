// Flow: whether the stages of a pipeline ever wait for each other in a circle. Their plans are played through by the rules
// of the executor and of lanes: a message goes when both ends have given it to their lanes and those before it in these
// lanes are done; the compute lane waits for the transfers that an instruction names.
#pragma once

#include <string>
#include <vector>

#include "engine/plan/plan.h"

namespace hawser::plan {

/// The end of a lane on another stage.
struct LaneEnd {
  size_t stage;
  Lane lane;
};
/// Where a message of this stage's lane goes to or comes from, in a pipeline of that many stages.
LaneEnd other_end(size_t stage, Lane lane, size_t stages);

/// "" if the plans, one of each stage, come to their end; else what each stage waits for.
std::string where_they_stop(const std::vector<const Plan*>& stages);

}  // namespace hawser::plan
