// profile_table: a function that formats the time of a run's steps as a table: one line per kernel with its
// share of the step and of the machine's limit.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace hawser::cli {

/// `profile` comes from hws_engine_profile. `measured` comes from hws_device_measure with the threads of all
/// ranks of this process; its figures are divided among the ranks; null if unknown. Matrix products and
/// attention are compared with the peak of their type, everything else with memory bandwidth, which operands
/// in a cache can exceed. With several ranks, shows the kernels of the first rank, which the table names, and
/// the totals of all ranks in this process. Ranks do the same work, so a rank that differs was delayed by
/// something else.
std::string profile_table(const nlohmann::ordered_json& profile, const nlohmann::ordered_json& measured);

}  // namespace hawser::cli
