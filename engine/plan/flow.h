// Flow: whether the stages of a pipeline ever wait for each other in a circle. Their plans are played through
// by the rules of play.h.
#pragma once

#include <string>
#include <vector>

#include "engine/plan/plan.h"

namespace hawser::plan {

/// "" if the plans, one of each stage, come to their end; else what each stage waits for.
std::string find_deadlock(const std::vector<const Plan*>& stages);

}  // namespace hawser::plan
