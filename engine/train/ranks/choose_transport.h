// Whether the ranks' devices speak to each other themselves (/comm/device_transport): all do, or none.
#pragma once

#include <string>
#include <vector>

#include "engine/comm/comm.h"
#include "engine/config/resolved_config.h"
#include "engine/train/ranks/choose_device.h"

namespace hawser::train {

struct TransportChoice {
  bool peers = false;  ///< NCCL; else what travels goes through the hosts
  std::string reason;  ///< why, in words; "" where there is nothing to choose: one rank, or /device "cpu"
};

/// What a rank says of its device.
struct DeviceCard {
  std::string hardware_id;  ///< equal ones share a device
  std::string obstacle;     ///< why it cannot speak to others; "": it can
};

/// The same on every rank for the same cards, which are by rank. Throws kDeviceUnavailable for "nccl" where
/// that cannot be.
TransportChoice choose_transport(config::DeviceTransport wanted, const std::vector<DeviceCard>& cards);

/// Of a running rank. Collective over the world; what it throws, all ranks throw (AgreedError).
TransportChoice agree_on_transport(comm::RankComm* rank, const DeviceChoice& choice,
                                   config::DeviceTransport wanted, const device::DeviceInfo& device);

/// Of a plan that nobody runs: as if all ranks were of this process.
TransportChoice foresee_transport(const DeviceChoice& choice, const config::ResolvedConfig& config);

}  // namespace hawser::train
