// Plugin under test: the plugin for device_test.cc: the emulated one in this program (emulated_plugin.cc), or
// the real one next to it (real_plugin.cc). The build selects one.
#pragma once

#include "engine/device/plugin.h"

namespace hawser::testing {

/// Returns the plugin; throws if there is none.
const device::DevicePlugin& plugin_under_test();

}  // namespace hawser::testing
