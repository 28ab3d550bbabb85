#include "engine/ranks/described_device.h"

#include "engine/base/error.h"
#include "kernels/cuda/sizes/described_table.h"

namespace hawser::train {

config::ConfigTree on_described_device(config::ConfigTree config, const cluster::Cluster& cluster) {
  std::string wanted;
  if (!config.get("/device", &wanted) || wanted == "\"auto\"")
    config.set("/device", kind_name(cluster.device.kind));
  return config;
}

DeviceChoice described_device(const cluster::Cluster& cluster, const config::ResolvedConfig& config) {
  DeviceChoice choice;
  choice.kind = cluster.device.kind;
  const char* const kind = kind_name(choice.kind);
  if (config.device != kind)
    fail(Code::kConfigInvalid,
         "/device is \"{}\", but the cluster \"{}\" has devices of kind {}; use \"auto\" or \"{}\"",
         config.device, cluster.name, kind, kind);
  const int64_t world = config.mesh.world();
  if (cluster.ranks > 0 && world > cluster.ranks)
    fail(Code::kConfigInvalid,
         "/mesh asks for {} ranks, but the cluster \"{}\" has {}; use at most as many, or another cluster",
         world, cluster.name, cluster.ranks);
  return choice;
}

Target described_target(const DeviceChoice& device, const config::ResolvedConfig& config,
                        const kernels::KernelTable& cpu_kernels, int32_t threads) {
  if (device.kind == device::Kind::kCpu) return {&cpu_kernels, threads, true};
  Target target;
  target.kernels = &kernels::cuda::described_kernels();
  target.in_place = false;
  target.peers = config.mesh.world() > 1 && config.comm.device_transport != config::DeviceTransport::kHost;
  target.captures = true;
  return target;
}

}  // namespace hawser::train
