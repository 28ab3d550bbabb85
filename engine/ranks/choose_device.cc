#include "engine/ranks/choose_device.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/base/error.h"
#include "engine/base/json.h"

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

std::string explain_with_device(const config::ConfigTree& config, std::string_view pointer) {
  const std::string text = config::explain(config, pointer);
  OrderedJson json = parse_json<OrderedJson>(text);
  const auto add = [](OrderedJson& field) {
    if (field.at("pointer") != "/device" || field.at("value") != "auto") return false;
    field["rule"] = choose_device("auto").reason;
    return true;
  };
  if (json.is_object()) return add(json) ? json.dump(2) : text;
  return std::any_of(json.begin(), json.end(), add) ? json.dump(2) : text;
}

std::string with_plugin_devices(std::string list) {
  OrderedJson json = parse_json<OrderedJson>(list);
  const char* const kind = kind_name(device::Kind::kCuda);
  try {
    for (const device::DeviceInfo& d : cuda().devices)
      json.push_back({{"name", d.name}, {"kind", kind}, {"index", d.index}, {"total_bytes", d.total_bytes}});
  } catch (const Error& error) {
    json.push_back({{"kind", kind}, {"unavailable", error.message()}});
  }
  return json.dump();
}

}  // namespace hawser::train
