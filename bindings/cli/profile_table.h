// ProfileTable: where the time of a run's steps went, beside what this machine could do: one line per kernel
// with its share of the step and of the limit.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace hawser::cli {

/// `profile`: of hws_engine_profile. `measured`: of hws_device_measure, with the threads of all ranks of this
/// process, among which its figures are divided; null: not known. Matrix products and attention are held
/// against the peak of their type, all else against memory bandwidth, which operands that still lie in a
/// cache beat. The first rank of this process only: the others do the same.
std::string profile_table(const nlohmann::ordered_json& profile, const nlohmann::ordered_json& measured);

}  // namespace hawser::cli
