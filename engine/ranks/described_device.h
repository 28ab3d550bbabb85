// Described device: the device of a cluster (engine/cluster) as the target of a plan. This machine need not
// have such a device.
#pragma once

#include "engine/assembly/engine_plans.h"
#include "engine/cluster/cluster.h"
#include "engine/ranks/choose_device.h"

namespace hawser::train {

/// Returns the config. If /device is not set or "auto", it gets the cluster's kind.
config::ConfigTree on_described_device(config::ConfigTree config, const cluster::Cluster& cluster);

/// Returns the cluster's device, without a plugin. Throws kConfigInvalid if /device names the other kind, or
/// if the config has more ranks than the cluster.
DeviceChoice described_device(const cluster::Cluster& cluster, const config::ResolvedConfig& config);

/// Returns what plans need to know about the device. For a GPU, the kernels are null, and the workspaces are
/// those that its plugin plans (upper bounds for libraries). `cpu_kernels`, `threads`: used for a CPU only.
Target described_target(const DeviceChoice& device, const config::ResolvedConfig& config,
                        const kernels::KernelTable& cpu_kernels, int32_t threads);

}  // namespace hawser::train
