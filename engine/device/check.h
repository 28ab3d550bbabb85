// Turns a device's status into an Error.
#pragma once

#include "engine/base/error.h"
#include "engine/device/device.h"

namespace hawser::device {

/// Throws the device's last error if `status` is not 0.
inline void check(const Device& device, Status status) {
  if (status != 0) throw Error(static_cast<Code>(status), device.message());
}

}  // namespace hawser::device
