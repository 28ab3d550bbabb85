// Which device /device means here.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/config/config_tree.h"
#include "engine/device/open_plugin.h"

namespace hawser::train {

struct DeviceChoice {
  device::Kind kind = device::Kind::kCpu;
  const device::DevicePlugin* plugin = nullptr;  ///< null: the CPU
  std::vector<device::DeviceInfo> devices;       ///< the plugin's; one at least
  std::string reason;                            ///< "auto": why this one; else ""

  /// The device of a rank by its place among those of this process: they take turns.
  int32_t index_of(int32_t local_rank) const {
    return plugin ? local_rank % static_cast<int32_t>(devices.size()) : 0;
  }
  /// How many of `local_ranks` share the device of rank 0, which no other has more of.
  int32_t sharing(int32_t local_ranks) const;
};

/// "cpu", "cuda" or "auto": the first GPU that works, else the CPU. Opens the plugin unless it is "cpu".
/// Throws kDeviceUnavailable (what is missing, the path tried) and kAbiMismatch for "cuda".
DeviceChoice choose_device(const std::string& device);

const char* kind_name(device::Kind kind);

/// config::explain, with what "auto" means here, and why, as the rule of /device.
std::string explain_with_device(const config::ConfigTree& config, std::string_view pointer);

/// Of every plugin: its devices as JSON objects {name, kind, index, total_bytes}, or one {kind, unavailable}
/// with the reason. Appended to the JSON array `list`.
std::string with_plugin_devices(std::string list);

}  // namespace hawser::train
