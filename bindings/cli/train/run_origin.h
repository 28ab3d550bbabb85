// run_origin: a function that makes rows for the report: when a run was trained, on which files, and the
// command that repeats it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "bindings/cli/commands.h"
#include "bindings/cli/run_folder.h"

namespace hawser::cli {

/// Returns rows for the report's table: when the run was started and resumed, its data files and the command
/// that repeats it. `resolved` is the run's config with defaults and rules applied.
std::vector<std::pair<std::string, std::string>> run_origin(const RunFolder& folder,
                                                            const nlohmann::ordered_json& resolved,
                                                            const RankOptions& ranks);

}  // namespace hawser::cli
