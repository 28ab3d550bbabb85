// ProfileTable: where the time of a run's steps went, beside what this machine could do: one line per kernel
// with its share of the step and of the limit.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace hawser::cli {

/// `profile`: of hws_engine_profile. `measured`: of hws_device_measure, with the threads of all ranks of this
/// process, among which its figures are divided; null: not known. Matrix products and attention are held
/// against the peak of their type, all else against memory bandwidth, which operands that still lie in a
/// cache beat. Of several ranks the kernels of the first, which the table names, and the totals of all in
/// this process: they do the same, so a rank that differs was held up by something else.
std::string profile_table(const nlohmann::ordered_json& profile, const nlohmann::ordered_json& measured);

}  // namespace hawser::cli
