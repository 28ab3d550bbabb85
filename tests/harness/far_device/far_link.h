// Links between the far devices of one process. They are queued like all work of these devices, and run as
// late: a rank's data are read when its stream runs, and written to the other's memory when the other's
// stream runs. An order that events do not enforce therefore gives different numbers.
#pragma once

#include "engine/device/peer_link.h"
#include "tests/harness/far_device/far_device.h"

namespace hawser::testing {

/// Returns a link, which destroy() frees; `device` must outlive it.
device::PeerLink* make_far_link(FarDevice& device, const device::PeerLinkRequest& request);

/// True if a link has registered memory that begins here.
bool is_registered(const void* memory);

}  // namespace hawser::testing
