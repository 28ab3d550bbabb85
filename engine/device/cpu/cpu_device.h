// The CPU behind the Device interface. Its memory is the host's, both streams share one pool of threads, and
// work is done when the call returns.
#pragma once

#include <memory>

#include "engine/device/device.h"

namespace hawser::device {

/// `kernels` and `stream` must outlive every use. Memory may be released after they are gone.
std::shared_ptr<Device> make_cpu_device(const kernels::KernelTable& kernels, Stream& stream);

}  // namespace hawser::device
