// The interface between the core and a device plugin such as hawser-0/libhawser_cuda.so: plain structs, C
// functions, status codes and the pure-virtual Device. The core compares build ids (version, compiler, hash
// of all headers of the interface) before it calls anything else.
#pragma once

#include <stdint.h>

#include "engine/device/device.h"

namespace hawser::device {

/// What a device may use of the core. It must outlive the device.
struct DeviceRequest {
  int32_t index = 0;
  /// True if equal runs must give equal bits, even if that costs speed.
  bool deterministic = true;
  /// A file with the fastest algorithms. Shapes that it lacks are timed when they are prepared, and added to
  /// it. Null: no file, and nothing is timed.
  const char* algorithm_cache = nullptr;
  /// The rank's threads and this CPU's kernels, for work that a device runs on the host.
  Stream* host_stream = nullptr;
  const kernels::KernelTable* host_kernels = nullptr;
};

struct DevicePlugin {
  const char* build_id;
  /// Lists the devices of this machine, up to `capacity`, and their number. On failure, list and open return
  /// a status and write up to error_bytes of text (what is missing: a driver, or a library and the path
  /// tried).
  Status (*list)(DeviceInfo* out, int32_t capacity, int32_t* count, char* error, int64_t error_bytes);
  Status (*open)(const DeviceRequest* request, Device** out, char* error, int64_t error_bytes);
  /// Returns 0 if devices can communicate directly (Device::make_peer_link); otherwise writes why they
  /// cannot.
  Status (*peers)(char* error, int64_t error_bytes);
};

/// extern "C" const DevicePlugin* hawser_device_plugin();
using DevicePluginEntry = const DevicePlugin* (*)();
inline constexpr const char* kDevicePluginEntry = "hawser_device_plugin";
inline constexpr const char* kCudaLibrary = "libhawser_cuda.so";

}  // namespace hawser::device
