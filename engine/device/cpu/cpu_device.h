// The CPU as a Device. Its memory is host memory, all streams share one pool of threads, and work is done
// when the call returns.
#pragma once

#include <memory>

#include "engine/device/device.h"

namespace hawser::device {

/// `kernels` and `stream` must outlive every use of the device. Memory may be released after they are gone.
std::shared_ptr<Device> make_cpu_device(const kernels::KernelTable& kernels, Stream& stream);

}  // namespace hawser::device
