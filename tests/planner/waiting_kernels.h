// Waiting kernels: the CPU's kernels, each of which also waits until it has taken as long as it would on a
// device of a cluster. A waiting rank needs no processor, so this machine can run more ranks than it has
// processors at the speed of the cluster. The linker replaces kernels::cpu_kernels in a program that uses
// them (tests/planner/CMakeLists.txt).
#pragma once

#include "engine/cluster/cluster.h"

namespace hawser::testing {

/// Makes kernels take as long as on this device, from now on. Null: kernels do not wait.
void wait_as(const cluster::DeviceRates* device);

}  // namespace hawser::testing
