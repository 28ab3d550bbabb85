// compare_html: a function that writes the comparison of several runs as one self-contained page.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bindings/cli/report/metric_row.h"

namespace hawser::cli {

struct ComparedRun {
  std::string name;  ///< different for each run
  std::string folder;
  std::string started;              ///< a date; "" if unknown
  nlohmann::ordered_json resolved;  ///< the config with defaults and rules applied
  std::vector<MetricRow> rows;      ///< at least one
};

/// Returns what a run trains on, such as "cross_entropy" (/objective/kind).
std::string objective_of(const ComparedRun& run);

/// Returns a page with a table of the runs' losses, their losses over steps, tokens and time as SVG, and the
/// config fields that differ. `runs` have the same objective.
std::string compare_html(const std::vector<ComparedRun>& runs);

}  // namespace hawser::cli
