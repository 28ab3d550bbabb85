// What a rank did last, kept when its run fails.
#pragma once

#include <string>

#include "bindings/cli/client.h"

namespace hawser::cli {

/// Files of records are named flight-rank-N.json.
inline constexpr const char* kFlightFileStart = "flight-rank-";

/// Writes what the ranks of `engine` did last to `folder` ("": nowhere), as rank `rank`'s, and, if this
/// process `leads`, a table of it to stderr. Never throws: a run that fails has an error of its own.
void keep_flight(const hws_engine* engine, const std::string& folder, int32_t rank, bool leads,
                 const Failure& failure) noexcept;

}  // namespace hawser::cli
