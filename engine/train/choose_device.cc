#include "engine/train/choose_device.h"

#include <fmt/format.h>

#include "engine/base/error.h"

namespace hawser::train {
namespace {

DeviceChoice cuda() {
  DeviceChoice choice;
  choice.kind = device::Kind::kCuda;
  choice.plugin = &device::open_cuda_plugin();
  choice.devices = device::list_devices(*choice.plugin);
  if (choice.devices.empty())
    fail(Code::kDeviceUnavailable,
         "device \"cuda\" (/device): this machine has no CUDA device; use \"cpu\" or \"auto\"");
  return choice;
}

}  // namespace

int32_t DeviceChoice::sharing(int32_t local_ranks) const {
  const auto count = plugin ? static_cast<int32_t>(devices.size()) : 1;
  return (local_ranks + count - 1) / count;
}

DeviceChoice choose_device(const std::string& device) {
  if (device == "cpu") return {};
  if (device != "auto") return cuda();
  try {
    DeviceChoice choice = cuda();
    choice.reason = fmt::format("cuda, because {} is there", choice.devices.front().name);
    return choice;
  } catch (const Error& error) {
    DeviceChoice choice;
    choice.reason = "cpu, because " + error.message();
    return choice;
  }
}

const char* kind_name(device::Kind kind) { return kind == device::Kind::kCuda ? "cuda" : "cpu"; }

}  // namespace hawser::train
