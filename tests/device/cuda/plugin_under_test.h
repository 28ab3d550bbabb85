// The plugin that device_test.cc tests: the emulated one in this program (emulated_plugin.cc), or the real
// one beside it (real_plugin.cc). The build chooses.
#pragma once

#include "engine/device/plugin.h"

namespace hawser::testing {

/// Throws if there is none.
const device::DevicePlugin& plugin_under_test();

}  // namespace hawser::testing
