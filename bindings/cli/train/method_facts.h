// Method facts: rows for the heading and the report of a run that say what is trained, by which adapter and
// for which objective.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

namespace hawser::cli {

/// Returns label and value of each row. `resolved`: the run's config with every field; `info`: the JSON of
/// hws_engine_info. A run without an adapter that minimises the cross entropy has no such rows.
std::vector<std::pair<std::string, std::string>> method_facts(const nlohmann::ordered_json& resolved,
                                                              const nlohmann::ordered_json& info);

/// Returns rows about what another model computed once for the run's data, the reference or the teacher.
/// `data`: the JSON of hws_data_info.
std::vector<std::pair<std::string, std::string>> kept_facts(const nlohmann::ordered_json& data);

/// True for the label of such a row.
bool is_method_fact(const std::string& label);

}  // namespace hawser::cli
