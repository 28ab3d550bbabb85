// Foretell: predicts when each stage of a step computes, waits and sends on a cluster. It runs the simulator
// and attributes every wait to the ranks that the stage waits for.
#pragma once

#include <array>
#include <vector>

#include "engine/cluster/stage_costs.h"
#include "engine/plan/timeline.h"

namespace hawser::cluster {

/// Seconds of one stage. They add up to the seconds of the step.
struct StageTimes {
  double computing = 0;  ///< kernels, and what a stack does not overlap (stack.h)
  /// Waits for data that is on its way, and time in exchanges inside blocks, by group.
  std::array<double, parallel::kTransferGroups> exposed{};
  double copies = 0;  ///< waits for copies to and from the host or disk, and for the host's updates
  double bubble = 0;  ///< waits for stages that have not sent yet, and for the end of the step

  double exposed_in_all() const;
};

/// Attributes the time from 0 to `makespan`.
StageTimes stage_times(const StageProblem& stage, const plan::CostTable& costs, const plan::Timeline& line,
                       double makespan);

struct ForetoldStep {
  double seconds = 0;
  std::vector<StageTimes> stages;
  std::vector<plan::Timeline> lines;  ///< the timeline of one rank of each stage

  /// The mean over the stages.
  StageTimes mean() const;
};

/// Predicts a step of all stages of a pipeline.
ForetoldStep foretell(const Cluster& cluster, const std::vector<StageProblem>& stages);

/// Predicts a step from the given costs of each stage.
ForetoldStep foretell(const std::vector<StageProblem>& stages, const std::vector<plan::CostTable>& costs);

}  // namespace hawser::cluster
