// Tests the real plugin as the core opens it, on this machine: with a GPU, or without a driver.
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "engine/device/open_plugin.h"

namespace hawser::testing {
namespace plugin_test {

TEST(CudaPlugin, OpensOnEveryMachineAndSaysWhatIsMissing) {
  const device::DevicePlugin& plugin = device::open_cuda_plugin();
  std::string reason;
  try {
    const auto devices = device::list_devices(plugin);
    ASSERT_FALSE(devices.empty()) << "no device must be an error that says why";
    for (const device::DeviceInfo& info : devices) EXPECT_GT(info.total_bytes, 0) << info.name;
    GTEST_SKIP() << "this machine has " << devices[0].name;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kDeviceUnavailable);
    reason = error.message();
  }
  for (const char* part : {"no CUDA device", "driver", "CUDA 13", "cudaGetDeviceCount", "use \"cpu\""})
    EXPECT_NE(reason.find(part), std::string::npos) << part << " is not in: " << reason;
  try {
    device::open_device(plugin, {});
    FAIL() << "opened a device that the list does not have";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kDeviceUnavailable);
    EXPECT_NE(error.message().find("GPU 0"), std::string::npos) << error.message();
  }
}

}  // namespace plugin_test
}  // namespace hawser::testing
