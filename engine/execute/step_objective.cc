#include "engine/execute/step_objective.h"

#include "engine/execute/pair_objective.h"

namespace hawser::train {

std::unique_ptr<StepObjective> StepObjective::make(const ObjectiveSetup& setup) {
  if (setup.objective.weighs_targets()) return std::make_unique<PairObjective>(setup);
  return std::make_unique<StepObjective>();
}

ObjectiveWords StepObjective::words(const optim::ObjectiveConfig& objective, int64_t rows) {
  if (!objective.weighs_targets()) return {};
  return {1, PairObjective::row_words(rows), PairObjective::kAgreedWords};
}

}  // namespace hawser::train
