// keep_flight: a function that writes the flight record of a rank when its run fails.
#pragma once

#include <string>

#include "bindings/cli/client.h"

namespace hawser::cli {

/// Record files are named flight-rank-N.json.
inline constexpr const char* kFlightFileStart = "flight-rank-";

/// Writes the last calls of the engine's ranks to `folder` ("": nowhere) under the number `rank`. If this
/// process `leads`, prints a table of them to stderr. Never throws, so that the run's own error is reported.
void keep_flight(const hws_engine* engine, const std::string& folder, int32_t rank, bool leads,
                 const Failure& failure) noexcept;

}  // namespace hawser::cli
