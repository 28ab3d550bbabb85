// Devices that a plugin brings. The library is opened when somebody asks for it, once, and never closed.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/device/plugin.h"

namespace hawser::device {

/// The CUDA plugin: hawser-0/libhawser_cuda.so beside this library. Throws kDeviceUnavailable naming the path
/// tried and the loader's reason, kAbiMismatch if it is of another build.
const DevicePlugin& open_cuda_plugin();

/// The plugin's devices. Throws what it says where it finds no driver; may be empty.
std::vector<DeviceInfo> list_devices(const DevicePlugin& plugin);

/// Why the plugin's devices cannot speak to each other; "" where they can.
std::string why_no_peers(const DevicePlugin& plugin);

/// Throws what it says.
std::shared_ptr<Device> open_device(const DevicePlugin& plugin, const DeviceRequest& request);

}  // namespace hawser::device
