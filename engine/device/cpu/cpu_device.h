// The CPU behind the Device interface: its memory is the host's, both streams are one pool of threads, and
// whatever is asked is done when the call returns.
#pragma once

#include <memory>

#include "engine/device/device.h"

namespace hawser::device {

/// `kernels` and `stream` outlive every use of them; what is allocated may be released later.
std::shared_ptr<Device> make_cpu_device(const kernels::KernelTable& kernels, Stream& stream);

}  // namespace hawser::device
