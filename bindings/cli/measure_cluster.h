// measure_cluster: measures this host as a cluster file (engine/cluster/README.md), from which `hawser plan
// --cluster` foretells steps.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

namespace hawser::cli {

/// Profiles steps of small models on `threads` threads (0: default). Every number names what was measured, or
/// that it was assumed: nothing is sent between ranks here.
nlohmann::ordered_json measure_cluster(int32_t threads);

}  // namespace hawser::cli
