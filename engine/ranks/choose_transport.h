// Transport choice: decides whether the ranks' devices communicate directly (/comm/device_transport). Either
// all do or none.
#pragma once

#include <string>
#include <vector>

#include "engine/comm/comm.h"
#include "engine/config/resolved_config.h"
#include "engine/ranks/choose_device.h"

namespace hawser::train {

struct TransportChoice {
  bool peers = false;  ///< true: NCCL; false: transfers go through the hosts
  std::string reason;  ///< why; "" if there is no choice (one rank, or /device "cpu")
};

/// What a rank reports about its device.
struct DeviceCard {
  std::string hardware_id;  ///< ranks with equal ids share a device
  std::string obstacle;     ///< why it cannot communicate with other devices; "" if it can
};

/// Chooses the transport. `cards` is indexed by rank and equal on all ranks, so all make the same choice.
/// Throws kDeviceUnavailable if "nccl" was requested and is impossible.
TransportChoice choose_transport(config::DeviceTransport wanted, const std::vector<DeviceCard>& cards);

/// Chooses the transport of a running rank. Collective over the world; whatever it throws, all ranks throw
/// (AgreedError).
TransportChoice agree_on_transport(comm::RankComm* rank, const DeviceChoice& choice,
                                   config::DeviceTransport wanted, const device::DeviceInfo& device);

/// Chooses the transport for a plan that is only printed, as if all ranks were in this process.
TransportChoice predict_transport(const DeviceChoice& choice, const config::ResolvedConfig& config);

}  // namespace hawser::train
