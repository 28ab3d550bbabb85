// Described device: the device of a cluster (engine/cluster), which need not be here, as the target of a
// plan.
#pragma once

#include "engine/assembly/engine_plans.h"
#include "engine/cluster/cluster.h"
#include "engine/ranks/choose_device.h"

namespace hawser::train {

/// The config with /device of the cluster's kind, unless it names a kind itself.
config::ConfigTree on_described_device(config::ConfigTree config, const cluster::Cluster& cluster);

/// The cluster's device, without a plugin. Throws kConfigInvalid if /device names the other kind, and if the
/// config has more ranks than the cluster.
DeviceChoice described_device(const cluster::Cluster& cluster, const config::ResolvedConfig& config);

/// What plans need to know about it. Of a GPU the kernels are null; workspaces are those that its plugin
/// plans, which for libraries are upper bounds. `cpu_kernels`, `threads`: of a CPU.
Target described_target(const DeviceChoice& device, const config::ResolvedConfig& config,
                        const kernels::KernelTable& cpu_kernels, int32_t threads);

}  // namespace hawser::train
