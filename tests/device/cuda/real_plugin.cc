// Makes the tests of this folder run the plugin for a real GPU.
#include "engine/device/open_plugin.h"
#include "tests/device/cuda/plugin_under_test.h"

namespace hawser::testing {
const device::DevicePlugin& plugin_under_test() { return device::open_cuda_plugin(); }
}  // namespace hawser::testing
