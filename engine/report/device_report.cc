#include "engine/report/device_report.h"

#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/comm/identity/open_module.h"
#include "engine/device/arena.h"
#include "engine/device/cpu/thread_pool.h"
#include "engine/device/open_plugin.h"
#include "engine/ranks/choose_device.h"
#include "engine/text/open_text_module.h"
#include "kernels/include/levels.h"

namespace hawser::train {

std::string device_list_json() {
  const OrderedJson cpu = {{"name", kernels::cpu_name()},
                           {"kind", "cpu"},
                           {"threads", device::default_threads()},
                           {"available_bytes", device::available_memory()},
                           {"level", kernels::cpu_level_name(kernels::best_cpu_level())}};
  return with_plugin_devices(OrderedJson::array({cpu}).dump());
}

std::string library_info_json() {
  OrderedJson json = {{"name", "hawser"}, {"version", HAWSER_VERSION}, {"compiler", __VERSION__}};
  OrderedJson& modules = json["modules"] = {"cpu"};
  const auto add = [&](const char* name, const auto& open) {
    try {
      open();
      modules.push_back(name);
    } catch (const Error& error) {
      // The module is not installed, or of another build. Calls that need it say why.
      if (error.code() != Code::kUnavailable && error.code() != Code::kDeviceUnavailable &&
          error.code() != Code::kAbiMismatch)
        throw;
    }
  };
  add("text", [] { text::open_text_module(); });
  add("cuda", [] { device::open_cuda_plugin(); });
  add("identity", [] { comm::open_identity_module(""); });
  json["cpu_level"] = kernels::cpu_level_name(kernels::best_cpu_level());
  return json.dump();
}

}  // namespace hawser::train
