// What far devices of one process say to each other: queued like all their work, and as late. A rank's data
// is taken when its stream is run and not before, and lands in the other's memory when that one's stream is
// run; so an order that events do not keep gives other numbers.
#pragma once

#include "engine/device/peer_link.h"
#include "tests/harness/far_device/far_device.h"

namespace hawser::testing {

/// Ends by destroy; `device` outlives it.
device::PeerLink* make_far_link(FarDevice& device, const device::PeerLinkRequest& request);

}  // namespace hawser::testing
