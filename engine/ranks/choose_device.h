// Device choice: decides which device /device means on this machine.
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
  std::vector<device::DeviceInfo> devices;  ///< devices of the plugin; at least one, if there is a plugin
  std::string reason;                       ///< for "auto": why this device; else ""

  /// Returns the device for the rank with this position in the process. Ranks are assigned round-robin.
  int32_t index_of(int32_t local_rank) const {
    return plugin ? local_rank % static_cast<int32_t>(devices.size()) : 0;
  }
  /// Returns how many of `local_ranks` ranks share the device of the first. No device is shared by more.
  int32_t sharing(int32_t local_ranks) const;
  /// Rows of a vocabulary's table are padded to a multiple of this number. For 50,257 rows, cuBLASLt uses
  /// kernels for unaligned operands, which take eight times as long as its kernels for 50,304 rows.
  int64_t tile_rows() const { return kind == device::Kind::kCuda ? 64 : 1; }
};

/// Chooses the device for "cpu", "cuda" or "auto", which means GPUs if there are any that work, otherwise the
/// CPU. Opens the plugin unless `device` is "cpu". For "cuda", throws kDeviceUnavailable (what is missing,
/// the path tried) and kAbiMismatch.
DeviceChoice choose_device(const std::string& device);

const char* kind_name(device::Kind kind);

/// Returns what config::explain returns. For /device it adds what "auto" means on this machine, and why.
std::string explain_with_device(const config::ConfigTree& config, std::string_view pointer);

/// Appends the devices of every plugin to the JSON array `list`, each as {name, kind, index, total_bytes}. A
/// plugin that cannot be used appends {kind, unavailable} with the reason.
std::string with_plugin_devices(std::string list);

}  // namespace hawser::train
