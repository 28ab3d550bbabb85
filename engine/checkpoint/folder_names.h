// Checkpoint names: the names in a folder of checkpoints: step-N, best, the temporary directories of saves,
// the LATEST hint.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace hawser::checkpoint {

inline constexpr const char* kLatestName = "LATEST";
inline constexpr const char* kBestName = "best";

/// Returns N for a name "step-N" (decimal digits only).
std::optional<int64_t> step_of_name(std::string_view name);

/// Returns `<name>.<16 hex digits>.tmp`: the directory that a save fills before its rename.
std::string temporary_name(const std::string& name);
bool is_temporary_name(std::string_view name);

}  // namespace hawser::checkpoint
