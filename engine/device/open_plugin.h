// Opens device plugins. A plugin's library is opened once, on demand, and never closed.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/device/plugin.h"

namespace hawser::device {

/// Opens the CUDA plugin: hawser-0/libhawser_cuda.so next to this library. Throws kDeviceUnavailable with the
/// path and the loader's reason if it cannot be opened, kAbiMismatch if it is of another build.
const DevicePlugin& open_cuda_plugin();

/// Lists the plugin's devices; the list may be empty. Throws the plugin's error if it finds no driver.
std::vector<DeviceInfo> list_devices(const DevicePlugin& plugin);

/// Returns why the plugin's devices cannot communicate with each other; "" if they can.
std::string why_no_peers(const DevicePlugin& plugin);

/// Opens a device. Throws the plugin's error if that fails.
std::shared_ptr<Device> open_device(const DevicePlugin& plugin, const DeviceRequest& request);

}  // namespace hawser::device
