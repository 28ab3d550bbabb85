#include "engine/device/open_plugin.h"

#include <algorithm>
#include <array>

#include "engine/base/error.h"
#include "engine/base/open_module.h"

namespace hawser::device {
namespace {

constexpr int32_t kMostDevices = 64;

using Text = std::array<char, 1024>;

void check(Status status, const Text& text) {
  if (status != 0) throw Error(static_cast<Code>(status), text.data());
}

}  // namespace

const DevicePlugin& open_cuda_plugin() {
  const OpenedModule module = open_module("", kCudaLibrary, kDevicePluginEntry);
  if (!module.reason.empty())
    fail(
        Code::kDeviceUnavailable,
        "device \"cuda\" (/device) needs {}, which could not be opened; tried {} ({}); install Hawser's CUDA "
        "module, or use \"cpu\"",
        kCudaLibrary, module.path, module.reason);
  const auto entry = reinterpret_cast<DevicePluginEntry>(module.entry);
  require_same_build(module.path, entry != nullptr ? entry()->build_id : nullptr, HAWSER_DEVICE_BUILD_ID);
  return *entry();
}

std::vector<DeviceInfo> list_devices(const DevicePlugin& plugin) {
  std::vector<DeviceInfo> devices(kMostDevices);
  int32_t count = 0;
  Text text{};
  check(plugin.list(devices.data(), kMostDevices, &count, text.data(), text.size()), text);
  devices.resize(static_cast<size_t>(std::min(count, kMostDevices)));
  return devices;
}

std::string why_no_peers(const DevicePlugin& plugin) {
  Text text{};
  return plugin.peers(text.data(), text.size()) == 0 ? "" : text.data();
}

std::shared_ptr<Device> open_device(const DevicePlugin& plugin, const DeviceRequest& request) {
  Device* device = nullptr;
  Text text{};
  check(plugin.open(&request, &device, text.data(), text.size()), text);
  return std::shared_ptr<Device>(device, [](Device* d) { d->destroy(); });
}

}  // namespace hawser::device
