// Devices of a plugin. Its library is opened on demand, once, and never closed.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/device/plugin.h"

namespace hawser::device {

/// The CUDA plugin: hawser-0/libhawser_cuda.so beside this library. Throws kDeviceUnavailable naming the path
/// tried and the loader's reason, kAbiMismatch if it is of another build.
const DevicePlugin& open_cuda_plugin();

/// The plugin's devices; may be empty. Throws the plugin's error if it finds no driver.
std::vector<DeviceInfo> list_devices(const DevicePlugin& plugin);

/// Why the plugin's devices cannot reach each other; "" if they can.
std::string why_no_peers(const DevicePlugin& plugin);

/// Throws what it says.
std::shared_ptr<Device> open_device(const DevicePlugin& plugin, const DeviceRequest& request);

}  // namespace hawser::device
