// Machine: what one rank computes with: its threads of the host, its device, and the way between them.
#pragma once

#include <memory>

#include "engine/config/resolved_config.h"
#include "engine/device/cpu/thread_pool.h"
#include "engine/device/host_link.h"
#include "engine/train/assembly/engine_plans.h"
#include "engine/train/assembly/memory_check.h"
#include "engine/train/ranks/choose_device.h"

namespace hawser::train {

class Machine {
 public:
  /// For the rank with this place among those of the process. `kernels`: of the CPU. `chooses`: it is the one
  /// whose choices all ranks take, so it reads and writes /cuda/algorithm_cache. Throws kUnavailable if a
  /// thread cannot be made, and what the device says.
  Machine(const DeviceChoice& choice, const config::ResolvedConfig& config,
          const kernels::KernelTable& kernels, int32_t threads, int32_t local_rank, bool chooses);

  Stream& host_stream() { return pool_.stream(); }
  device::Device& device() const { return link_.device(); }
  device::HostLink& link() { return link_; }
  /// What plans must know of it.
  Target target() const;
  /// What a rank may take where `local_ranks` ranks of this process share out the devices and the host.
  Room room(const DeviceChoice& choice, int32_t local_ranks) const;

 private:
  device::ThreadPool pool_;
  device::HostLink link_;
};

/// The target of a config's ranks, for reports on plans that nobody runs. `machine` holds what it needs.
Target target_of(const DeviceChoice& choice, bool peers, const config::ResolvedConfig& config,
                 const kernels::KernelTable& kernels, int32_t threads, std::unique_ptr<Machine>* machine);

}  // namespace hawser::train
