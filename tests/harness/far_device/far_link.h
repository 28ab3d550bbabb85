// Links between the far devices of one process: queued like all their work, and as late. A rank's data is
// read when its stream runs, and written to the other's memory when that one's stream runs. An order that
// events do not enforce therefore gives other numbers.
#pragma once

#include "engine/device/peer_link.h"
#include "tests/harness/far_device/far_device.h"

namespace hawser::testing {

/// Destroyed by destroy(); `device` must outlive it.
device::PeerLink* make_far_link(FarDevice& device, const device::PeerLinkRequest& request);

}  // namespace hawser::testing
