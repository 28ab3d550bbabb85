// Tests the behaviour that the engine expects of a CUDA device (engine/device/device.h), on an emulated GPU
// and a real one.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <thread>

#include "engine/base/error.h"
#include "tests/device/cuda/opened_device.h"

namespace hawser::testing {
namespace device_test {

using device::Event;
using device::Graph;

std::vector<float> ramp(int64_t n, float first = 0) {
  std::vector<float> values(static_cast<size_t>(n));
  std::iota(values.begin(), values.end(), first);
  return values;
}

/// Computes y = a + b with the device's kernel.
void add(OpenedDevice& gpu, float* y, const float* a, const float* b, int64_t n, StreamId on = kCompute) {
  gpu->kernels().add({.y = y, .a = a, .b = b, .n = n}, gpu->stream(on));
}

TEST(CudaDevice, SaysWhatItIs) {
  const auto devices = device::list_devices(plugin_under_test());
  ASSERT_FALSE(devices.empty());
  OpenedDevice gpu;
  const device::DeviceInfo info = gpu->info();
  EXPECT_EQ(info.kind, device::Kind::kCuda);
  EXPECT_EQ(info.index, 0);
  EXPECT_STREQ(info.name, devices[0].name);
  EXPECT_EQ(info.total_bytes, devices[0].total_bytes);
  EXPECT_FALSE(info.host_visible);
  EXPECT_TRUE(info.captures);
  int64_t available = 0, total = 0;
  gpu.ok(gpu->memory(&available, &total));
  EXPECT_GT(available, 0);
  EXPECT_LE(available, total);
  EXPECT_EQ(gpu->error(), 0);
}

TEST(CudaDevice, MemoryIsZeroedAndAligned) {
  OpenedDevice gpu;
  for (const int64_t n : {1, 4095, 100003, 3 << 20}) {
    SCOPED_TRACE(n);
    char* const memory = gpu.on_device<char>(n);
    char* const host = gpu.on_host<char>(n);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 4096, 0u);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(host) % 4096, 0u);
    EXPECT_EQ(std::count(host, host + n, 0), n);
    EXPECT_EQ(gpu.read(memory, n), std::vector<char>(static_cast<size_t>(n)));
  }
}

TEST(CudaDevice, CopiesAllWays) {
  OpenedDevice gpu;
  constexpr int64_t kN = 100003;
  float* const a = gpu.on_device<float>(kN);
  float* const b = gpu.on_device<float>(kN);
  float* const host = gpu.on_host<float>(kN);
  const auto values = ramp(kN);
  std::copy(values.begin(), values.end(), host);
  gpu.ok(gpu->copy_to_device(a, host, kN * 4, kCompute));
  gpu.ok(gpu->copy_inside(b, a, kN * 4, kCompute));
  gpu.ok(gpu->fill_zero(a, 400, kCompute));
  gpu.ok(gpu->synchronize(kCompute));
  EXPECT_EQ(gpu.read(b, kN), values);
  EXPECT_EQ(gpu.read(a, 100), std::vector<float>(100));
  EXPECT_EQ(gpu.read(a + 100, 1), std::vector<float>{100});
  gpu.ok(gpu->copy_inside(b, a, 0, kCompute));
  gpu.ok(gpu->fill_zero(a, 0, kCompute));
}

TEST(CudaDevice, KernelsRunBehindWhatTheStreamWasGiven) {
  OpenedDevice gpu;
  constexpr int64_t kN = 100003;
  float* const a = gpu.on_device<float>(kN);
  float* const y = gpu.on_device<float>(kN);
  float* const host = gpu.on_host<float>(kN);
  const auto values = ramp(kN);
  std::copy(values.begin(), values.end(), host);
  gpu.ok(gpu->copy_to_device(a, host, kN * 4, kCompute));
  add(gpu, y, a, a, kN);
  add(gpu, y, y, a, kN);
  const auto sum = gpu.read(y, kN);
  for (int64_t i = 0; i < kN; ++i) ASSERT_EQ(sum[static_cast<size_t>(i)], 3 * values[static_cast<size_t>(i)]);
}

TEST(CudaDevice, AStreamWaitsForTheOther) {
  OpenedDevice gpu;
  constexpr int64_t kN = 1 << 20;
  float* const a = gpu.on_device<float>(kN);
  float* const b = gpu.on_device<float>(kN);
  gpu.write(a, ramp(kN));
  Event* const added = gpu.event();
  Event* const copied = gpu.event();
  for (int round = 0; round < 10; ++round) {
    add(gpu, a, a, a, kN);
    gpu.ok(gpu->record(added, kCompute));
    gpu.ok(gpu->wait(added, kCommunication));
    gpu.ok(gpu->copy_inside(b, a, kN * 4, kCommunication));
    gpu.ok(gpu->record(copied, kCommunication));
    gpu.ok(gpu->wait(copied, kCompute));
    gpu.ok(gpu->fill_zero(a, kN * 4, kCompute));
    add(gpu, a, b, a, kN);
  }
  const auto got = gpu.read(a, kN);
  for (int64_t i = 0; i < kN; i += 1001)
    ASSERT_EQ(got[static_cast<size_t>(i)], 1024.0f * static_cast<float>(i));
}

TEST(CudaDevice, TheHostWaitsForAnEvent) {
  OpenedDevice gpu;
  constexpr int64_t kN = 1 << 20;
  float* const a = gpu.on_device<float>(kN);
  float* const host = gpu.on_host<float>(kN);
  gpu.write(a, ramp(kN));
  Event* const begun = gpu.event();
  Event* const done = gpu.event();
  gpu.ok(gpu->wait_on_host(done));  // an event that was never recorded counts as complete
  gpu.ok(gpu->wait(done, kCompute));
  gpu.ok(gpu->record(begun, kCompute));
  gpu.ok(gpu->copy_to_host(host, a, kN * 4, kCompute));
  gpu.ok(gpu->record(done, kCompute));
  gpu.ok(gpu->wait_on_host(done));
  EXPECT_EQ(host[kN - 1], static_cast<float>(kN - 1));
  double seconds = -1;
  gpu.ok(gpu->elapsed(begun, done, &seconds));
  EXPECT_GT(seconds, 0);
  EXPECT_LT(seconds, 10);
}

TEST(CudaDevice, ACallThatFailsAloneLeavesItUsable) {
  OpenedDevice gpu;
  int64_t available = 0, total = 0;
  gpu.ok(gpu->memory(&available, &total));
  void* memory = &available;
  EXPECT_EQ(gpu->allocate(total + (int64_t{1} << 30), &memory), static_cast<int32_t>(Code::kOutOfMemory));
  EXPECT_EQ(memory, nullptr);
  expect_says(gpu->message(), {std::to_string(total + (int64_t{1} << 30))});
  expect_says(gpu->message(), {gpu->info().name});
  double seconds = 0;
  Event* const never = gpu.event();
  EXPECT_NE(gpu->elapsed(never, never, &seconds), 0);
  expect_says(gpu->message(), {"cudaEventElapsedTime"});
  EXPECT_EQ(gpu->error(), 0);
  EXPECT_EQ(gpu.read(gpu.on_device<int32_t>(1000), 1000), std::vector<int32_t>(1000));
}

TEST(CudaDevice, CapturedWorkRunsAtEachLaunch) {
  OpenedDevice gpu;
  constexpr int64_t kN = 5000;
  float* const a = gpu.on_device<float>(kN);
  float* const b = gpu.on_device<float>(kN);
  gpu.write(a, ramp(kN));
  Event* const fork = gpu.event();
  Event* const join = gpu.event();
  gpu.ok(gpu->begin_capture(kCompute));
  add(gpu, a, a, a, kN);
  gpu.ok(gpu->record(fork, kCompute));
  gpu.ok(gpu->wait(fork, kCommunication));
  gpu.ok(gpu->copy_inside(b, a, kN * 4, kCommunication));
  gpu.ok(gpu->record(join, kCommunication));
  gpu.ok(gpu->wait(join, kCompute));
  add(gpu, b, b, a, kN);
  Graph* graph = nullptr;
  gpu.ok(gpu->end_capture(kCompute, &graph));
  EXPECT_EQ(gpu.read(a, kN), ramp(kN)) << "captured work must not run";
  for (int round = 0; round < 3; ++round) gpu.ok(gpu->launch(graph, kCompute));
  const auto got = gpu.read(b, kN);
  for (int64_t i = 0; i < kN; ++i) ASSERT_EQ(got[static_cast<size_t>(i)], 16.0f * static_cast<float>(i));
  gpu->free_graph(graph);
}

TEST(CudaDevice, ACaptureThatCannotBeSaysSoAndLeavesItUsable) {
  OpenedDevice gpu;
  float* const a = gpu.on_device<float>(100);
  gpu.write(a, ramp(100));
  Event* const fork = gpu.event();
  gpu.ok(gpu->begin_capture(kCompute));
  gpu.ok(gpu->record(fork, kCompute));
  gpu.ok(gpu->wait(fork, kCommunication));
  gpu.ok(gpu->fill_zero(a, 400, kCommunication));  // the capture never waits for this work
  Graph* graph = nullptr;
  EXPECT_NE(gpu->end_capture(kCompute, &graph), 0);
  EXPECT_EQ(graph, nullptr);
  expect_says(gpu->message(), {"cudaStreamEndCapture"});
  EXPECT_EQ(gpu->error(), 0);
  EXPECT_EQ(gpu.read(a, 100), ramp(100));
  EXPECT_EQ(gpu.read(a, 100, kCommunication), ramp(100));
}

/// An error reported during the capture belongs to the capture; the device keeps none of it.
TEST(CudaDevice, WorkThatNoCaptureMayContainSpoilsItAndNothingElse) {
  OpenedDevice gpu;
  float* const a = gpu.on_device<float>(100);
  gpu.write(a, ramp(100));
  Graph* graph = nullptr;
  gpu.ok(gpu->begin_capture(kCompute));
  gpu->synchronize(kCompute);
  add(gpu, a, a, a, 100);
  EXPECT_EQ(gpu->error(), 0);
  EXPECT_NE(gpu->end_capture(kCompute, &graph), 0);
  EXPECT_EQ(graph, nullptr);
  expect_says(gpu->message(), {"cudaStreamSynchronize"});
  EXPECT_EQ(gpu->error(), 0);
  EXPECT_EQ(gpu.read(a, 100), ramp(100));

  gpu.ok(gpu->begin_capture(kCompute));
  add(gpu, a, a, a, 100);
  gpu.ok(gpu->end_capture(kCompute, &graph));
  gpu.ok(gpu->launch(graph, kCompute));
  EXPECT_EQ(gpu.read(a, 100)[7], 14.0f);
  gpu->free_graph(graph);
}

TEST(CudaDevice, SeveralShareAGpuFromThreadsOfTheirOwn) {
  constexpr int64_t kN = 10007;
  std::vector<std::thread> ranks;
  std::array<float, 4> last{};
  for (int rank = 0; rank < 4; ++rank) {
    ranks.emplace_back([rank, &last] {
      OpenedDevice gpu;
      float* const a = gpu.on_device<float>(kN);
      gpu.write(a, std::vector<float>(kN, static_cast<float>(rank)));
      for (int round = 0; round < 8; ++round) add(gpu, a, a, a, kN);
      last[static_cast<size_t>(rank)] = gpu.read(a, kN).back();
    });
  }
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(last, (std::array<float, 4>{0, 256, 512, 768}));
}

TEST(CudaDevice, OneThatIsNotThereIsAnErrorWithItsNumber) {
  try {
    OpenedDevice gpu(63);
    FAIL() << "opened";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kDeviceUnavailable);
    expect_says(error.message(), {"GPU 63"});
  }
}

}  // namespace device_test
}  // namespace hawser::testing
