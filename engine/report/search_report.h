// Search report: the report of hws_plan_search and `hawser plan --search`: the fastest layouts of a config on
// a cluster with the fields to set, and why the other layouts are not among them.
#pragma once

#include "engine/report/foretold_report.h"

namespace hawser::train {

/// `cluster`: as in foretold_plan. `ranks`: 0 for those of the cluster, or else of the config's mesh. `top`:
/// the number of layouts. `imbalance`: as for Forecast. Throws the errors of search_layouts and of a cluster
/// that is not valid.
PlanTexts searched_plan(const config::ConfigTree& config, std::string_view cluster, int64_t ranks,
                        int64_t top, double imbalance = 1);

}  // namespace hawser::train
