// Engine plans test: whether a device may capture a plan's segments as graphs is decided with the plan.
#include "engine/assembly/engine_plans.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engine/assembly/assemble.h"
#include "engine/config/config_tree.h"
#include "tests/harness/layout_run.h"

namespace hawser::testing {
namespace engine_plans_test {

using plan::NoGraphs;
using Json = nlohmann::json;

/// Plans of tensor-parallel ranks, or of one rank, on a device that can capture graphs.
train::EnginePlans plans(int64_t tp, bool peers, const Json& more = Json::object()) {
  Layout layout;
  layout.tp = tp;
  Json json = Json::parse(layout_config({}, layout));
  json.merge_patch(more);
  const train::Assembly a = train::assemble(config::ConfigTree::from_json(json.dump()));
  train::Target target{&train::choose_kernels(a.config), 1, false, peers};
  target.captures = true;
  return train::make_plans(train::model_of(a.config), a.config, target, false);
}

TEST(EnginePlans, SayWhatStopsADeviceFromCapturingThem) {
  EXPECT_EQ(plans(1, false).train.no_graphs, NoGraphs::kNone);
  EXPECT_EQ(plans(1, false).eval.no_graphs, NoGraphs::kNone);
  EXPECT_EQ(plans(1, false).generate.no_graphs, NoGraphs::kPositions);
  EXPECT_EQ(plans(2, false).train.no_graphs, NoGraphs::kHostExchanges);
  EXPECT_EQ(plans(2, true).train.no_graphs, NoGraphs::kNone);
  const Json off = {{"device", "auto"}, {"cuda", {{"graphs", false}}}};
  EXPECT_EQ(plans(1, false, off).train.no_graphs, NoGraphs::kOff);
}

}  // namespace engine_plans_test
}  // namespace hawser::testing
