// The exported functions of the far-memory plugin: one for the core, one for tests.
#include <cstring>

#include "engine/base/error.h"

#include "tests/harness/far_device/far_control.h"
#include "tests/harness/far_device/far_device.h"

namespace hawser::testing {
namespace {

constexpr int32_t kDevices = 4;

device::Status list(device::DeviceInfo* out, int32_t capacity, int32_t* count, char*, int64_t) {
  *count = kDevices;
  for (int32_t i = 0; i < kDevices && i < capacity; ++i) {
    out[i].kind = device::Kind::kCuda;
    out[i].index = i;
    out[i].name = kFarName;
    out[i].total_bytes = kFarBytes;
    out[i].hardware_id[0] = static_cast<uint8_t>(i + 1);
  }
  return 0;
}

device::Status open(const device::DeviceRequest* request, device::Device** out, char* error, int64_t bytes) {
  if (request->index < 0 || request->index >= kDevices) {
    std::strncpy(error, "there are four devices of far memory", static_cast<size_t>(bytes - 1));
    return static_cast<device::Status>(Code::kInvalidArgument);
  }
  *out = new FarDevice(*request);
  return 0;
}

device::Status peers(char*, int64_t) { return 0; }

constexpr device::DevicePlugin kPlugin = {HAWSER_DEVICE_BUILD_ID, &list, &open, &peers};

}  // namespace
}  // namespace hawser::testing

extern "C" __attribute__((visibility("default"))) const hawser::device::DevicePlugin* hawser_device_plugin() {
  return &hawser::testing::kPlugin;
}

extern "C" __attribute__((visibility("default"))) hawser::testing::FarControl* hawser_far_control() {
  return &hawser::testing::far_control();
}
