// Foretell: when each stage of a step would compute, wait and send on a cluster: the simulator's timelines,
// with every wait ascribed to the ranks that the stage waits for.
#pragma once

#include <array>
#include <vector>

#include "engine/cluster/stage_costs.h"
#include "engine/plan/timeline.h"

namespace hawser::cluster {

/// Seconds of one stage. They add up to the step's.
struct StageTimes {
  double computing = 0;  ///< kernels
  /// Waits for data that is on its way, or in exchanges inside blocks, by group.
  std::array<double, parallel::kTransferGroups> exposed{};
  double copies = 0;  ///< waits for copies to and from the host or disk, and for the host's updates
  double bubble = 0;  ///< waits for stages that have not sent yet, also at the end of the step

  double exposed_in_all() const;
};

/// Ascribes the time from 0 to `makespan`.
StageTimes stage_times(const StageProblem& stage, const plan::CostTable& costs, const plan::Timeline& line,
                       double makespan);

struct ForetoldStep {
  double seconds = 0;
  std::vector<StageTimes> stages;

  /// The mean over the stages.
  StageTimes mean() const;
};

/// Foretells a step of all stages of a pipeline.
ForetoldStep foretell(const Cluster& cluster, const std::vector<StageProblem>& stages);

/// The same with given costs, by stage.
ForetoldStep foretell(const std::vector<StageProblem>& stages, const std::vector<plan::CostTable>& costs);

}  // namespace hawser::cluster
