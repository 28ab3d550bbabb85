// Machine: the hardware that one rank computes with: its host threads, its device and the link between them.
#pragma once

#include <memory>

#include "engine/assembly/engine_plans.h"
#include "engine/assembly/memory_check.h"
#include "engine/config/resolved_config.h"
#include "engine/device/cpu/thread_pool.h"
#include "engine/device/host_link.h"
#include "engine/ranks/choose_device.h"

namespace hawser::train {

class Machine {
 public:
  /// Opens the machine of the rank with this position in the process. `kernels` are the CPU's. `chooses`
  /// marks the rank whose choices of algorithms all ranks take; its device reads and writes
  /// /cuda/algorithm_cache. Throws kUnavailable if a thread cannot be created, and the errors of the device.
  Machine(const DeviceChoice& choice, const config::ResolvedConfig& config,
          const kernels::KernelTable& kernels, int32_t threads, int32_t local_rank, bool chooses);

  Stream& host_stream() { return pool_.stream(); }
  const kernels::KernelTable& host_kernels() const { return host_kernels_; }
  device::Device& device() const { return link_.device(); }
  device::HostLink& link() { return link_; }
  /// Returns the properties of this machine on which plans depend.
  Target target() const;
  /// Returns the memory available to one rank if `local_ranks` ranks of this process share the devices and
  /// the host.
  Room room(const DeviceChoice& choice, int32_t local_ranks) const;

 private:
  const kernels::KernelTable& host_kernels_;
  device::ThreadPool pool_;
  device::HostLink link_;
};

/// Returns the target of a plan that is only printed. `machine` receives the machine that owns the target's
/// kernels; it stays null on the CPU.
Target target_of(const DeviceChoice& choice, bool peers, const config::ResolvedConfig& config,
                 const kernels::KernelTable& kernels, int32_t threads, std::unique_ptr<Machine>* machine);

}  // namespace hawser::train
