// measure_cluster: measures this host and makes a cluster file (engine/cluster/README.md), with which `hawser
// plan --cluster` predicts steps.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

namespace hawser::cli {

/// Profiles steps of small models on `threads` threads (0: default). The source of every number states what
/// was measured, or that the number is assumed. One rank runs, so the network's numbers are assumed.
nlohmann::ordered_json measure_cluster(int32_t threads);

}  // namespace hawser::cli
