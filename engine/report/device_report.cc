#include "engine/report/device_report.h"

#include "engine/base/json.h"
#include "engine/device/arena.h"
#include "engine/device/cpu/thread_pool.h"
#include "engine/ranks/choose_device.h"
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
  OrderedJson json = {
      {"name", "hawser"}, {"version", HAWSER_VERSION}, {"compiler", __VERSION__}, {"modules", {"cpu"}}};
  json["cpu_level"] = kernels::cpu_level_name(kernels::best_cpu_level());
  return json.dump();
}

}  // namespace hawser::train
