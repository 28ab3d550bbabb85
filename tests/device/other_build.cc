// A libhawser_cuda.so that reports the build id of another release.
#include "engine/device/plugin.h"

extern "C" __attribute__((visibility("default"))) const hawser::device::DevicePlugin* hawser_device_plugin() {
  static constexpr hawser::device::DevicePlugin kPlugin = {"0.0.0 some other compiler", nullptr, nullptr,
                                                           nullptr};
  return &kPlugin;
}
