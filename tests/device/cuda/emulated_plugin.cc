// Makes the tests of this folder run the plugin over the emulated runtime.
#include "tests/device/cuda/plugin_under_test.h"

extern "C" const hawser::device::DevicePlugin* hawser_device_plugin();

namespace hawser::testing {
const device::DevicePlugin& plugin_under_test() { return *hawser_device_plugin(); }
}  // namespace hawser::testing
