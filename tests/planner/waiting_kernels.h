// Waiting kernels: the CPU's kernels, each of which also waits until it has taken the seconds of a cluster.
// Ranks that wait need no processor, so this machine runs more ranks than it has processors at the speed that
// the cluster states. The linker replaces kernels::cpu_kernels in a program that uses them
// (tests/planner/CMakeLists.txt).
#pragma once

#include "engine/cluster/cluster.h"

namespace hawser::testing {

/// From now on, kernels take the seconds of this device. Null: no longer than they need.
void wait_as(const cluster::DeviceRates* device);

}  // namespace hawser::testing
