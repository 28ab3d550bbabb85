// PlannedStages: the plans of all stages of a layout, as a forecast takes them, and clusters for tests.
#pragma once

#include <string>
#include <vector>

#include "engine/assembly/assemble.h"
#include "engine/cluster/foretell.h"
#include "engine/ranks/described_device.h"
#include "tests/harness/layout_run.h"

namespace hawser::testing {

class PlannedStages {
 public:
  explicit PlannedStages(const std::string& config_json, device::Kind kind = device::Kind::kCpu)
      : a(train::assemble(config::ConfigTree::from_json(config_json))),
        model(train::model_of(a.config, device_of(kind).tile_rows())),
        strategies(train::strategies_of(a.config)) {
    const train::Target target =
        train::described_target(device_of(kind), a.config, train::choose_kernels(a.config), 1);
    stages = train::make_stage_plans(model, a.config, target, false);
    for (size_t s = 0; s < stages.size(); ++s)
      layouts.emplace_back(model.table(),
                           train::layout_options(a.config, strategies, stages[s].strategy,
                                                 strategies.first_of_stage(static_cast<int64_t>(s)), false));
  }
  PlannedStages(const Problem& problem, const Layout& layout)
      : PlannedStages(layout_config(problem, layout)) {}

  static train::DeviceChoice device_of(device::Kind kind) {
    train::DeviceChoice device;
    device.kind = kind;
    return device;
  }

  std::vector<cluster::StageProblem> problems() const {
    std::vector<cluster::StageProblem> all;
    for (size_t s = 0; s < stages.size(); ++s)
      all.push_back({&stages[s].train, &layouts[s], &stages[s].strategy});
    return all;
  }

  train::Assembly a;
  nn::Model model;
  parallel::Strategies strategies;
  std::vector<train::EnginePlans> stages;
  std::vector<parallel::ShardLayout> layouts;
};

/// A CPU cluster in nodes of `node` ranks, without latency and launches: all rates are 1e9 per second, of a
/// network between nodes 1e8.
inline cluster::Cluster plain_cluster(int64_t node = 2) {
  cluster::Cluster c;
  c.name = "plain";
  c.device.kind = device::Kind::kCpu;
  c.device.memory_bytes = 1e12;
  c.device.peak_flops[DType::kF32] = 1e9;
  c.device.matmul.efficiency = 1;
  c.device.attention_forward = c.device.attention_backward = {{DType::kF32, 128, 64, 1e9}};
  c.device.bytes_per_second = 1e9, c.device.efficiency = 1;
  c.levels.push_back({"node", node, 1e9, 0, {}});
  c.levels.push_back({"fabric", 0, 1e8, 0, {}});
  c.host = {1e9, 1e9, 1e9, 1e9, 1e9};
  return c;
}

}  // namespace hawser::testing
