// Tests that need an emulated GPU: failures, a missing GPU, work that runs as late as possible, and the
// release of all resources.
#include <gtest/gtest.h>

#include <functional>

#include "engine/base/error.h"
#include "tests/cuda_emulation/streams.h"
#include "tests/device/cuda/opened_device.h"

namespace hawser::testing {
namespace emulated_faults_test {

using cuda_emulation::Alive;

std::string list_error() {
  try {
    device::list_devices(plugin_under_test());
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kDeviceUnavailable);
    return error.message();
  }
  return "";
}

TEST(EmulatedGpu, WithoutADriverTheListSaysWhatIsMissing) {
  cuda_emulation::set_driver(0);
  expect_says(list_error(), {"no CUDA device", "no NVIDIA driver", "CUDA 13.0", "(35)", "use \"cpu\""});
  cuda_emulation::set_driver(12040);
  expect_says(list_error(), {"for CUDA 12.4", "CUDA 13.0 or newer", "update the driver"});
  cuda_emulation::set_driver(13000);
  cuda_emulation::set_devices(0);
  expect_says(list_error(), {"finds no GPU", "compute capability 8.0", "(100)"});
  cuda_emulation::set_devices(1);
  EXPECT_EQ(list_error(), "");
}

TEST(EmulatedGpu, OneThatIsTooOldIsRefused) {
  cuda_emulation::set_capability(75);
  try {
    const OpenedDevice gpu;
    ADD_FAILURE() << "opened";
  } catch (const Error& error) {
    expect_says(error.message(), {"compute capability 8.0 or newer", "GPU 0 (emulated GPU) has 7.5"});
  }
  cuda_emulation::set_capability(80);
  const OpenedDevice oldest;
  cuda_emulation::set_capability(90);
}

TEST(EmulatedGpu, WorkIsAsLateAsItMayBe) {
  OpenedDevice gpu;
  float* const a = gpu.on_device<float>(4);
  float* const host = gpu.on_host<float>(4);
  gpu.write(a, std::vector<float>{1, 2, 3, 4});
  gpu.ok(gpu->copy_to_host(host, a, 16, kCompute));
  EXPECT_EQ(host[0], 0) << "read before it is there";
  gpu.ok(gpu->synchronize(kCommunication));
  EXPECT_EQ(host[0], 0) << "the other stream has nothing to do with it";
  gpu.ok(gpu->synchronize(kCompute));
  EXPECT_EQ(host[3], 4);
}

TEST(EmulatedGpu, ABrokenDeviceKeepsItsFirstErrorAndItsOperation) {
  {
    OpenedDevice gpu;
    float* const a = gpu.on_device<float>(1000);
    gpu.ok(gpu->fill_zero(a, 4000, kCompute));
    cuda_emulation::break_device(cudaErrorIllegalAddress);
    constexpr auto kGone = static_cast<int32_t>(Code::kDeviceUnavailable);
    EXPECT_EQ(gpu->error(), 0) << "nobody has looked yet";
    EXPECT_EQ(gpu->synchronize(kCompute), kGone);
    const std::string first = gpu->message();
    expect_says(first, {"cudaStreamSynchronize"});
    EXPECT_EQ(gpu->error(), kGone);
    EXPECT_EQ(gpu->synchronize(kCommunication), kGone);
    EXPECT_EQ(gpu->message(), first);
    EXPECT_EQ(gpu->wait_on_host(gpu.event()), kGone);
    EXPECT_EQ(gpu->message(), first);
  }
  OpenedDevice next;
  EXPECT_EQ(next->synchronize(kCompute), 0);
}

TEST(EmulatedGpu, AKernelThatRefusesIsHeardAtTheNextWait) {
  OpenedDevice gpu;
  // A loop on the host must not run on this stream.
  gpu->stream(kCompute).run(&gpu->stream(kCompute), 1, nullptr, nullptr);
  EXPECT_EQ(gpu->error(), static_cast<int32_t>(Code::kInternal));
  EXPECT_EQ(gpu->synchronize(kCompute), static_cast<int32_t>(Code::kInternal));
  expect_says(gpu->message(), {"Stream::run"});
}

/// As in CUDA, a capture rejects calls that allocate memory, wait or may wait.
TEST(EmulatedGpu, NoCaptureContainsWhatTakesMemoryOrWaits) {
  OpenedDevice gpu;
  float* const a = gpu.on_device<float>(4);
  device::Event* const before = gpu.event();
  gpu.ok(gpu->record(before, kCompute));
  float pageable[4] = {};
  void* memory = nullptr;
  const std::vector<std::pair<const char*, std::function<void()>>> calls = {
      {"cudaMalloc", [&] { gpu->allocate(64, &memory); }},
      {"cudaHostAlloc", [&] { gpu->allocate_host(64, &memory); }},
      {"copy_to_device", [&] { gpu->copy_to_device(a, pageable, 16, kCompute); }},
      {"copy_to_host", [&] { gpu->copy_to_host(pageable, a, 16, kCompute); }},
      {"cudaEventSynchronize", [&] { gpu->wait_on_host(before); }},
      {"cudaStreamWaitEvent", [&] { gpu->wait(before, kCompute); }}};
  for (const auto& [name, call] : calls) {
    device::Graph* graph = nullptr;
    gpu.ok(gpu->begin_capture(kCompute));
    call();
    EXPECT_NE(gpu->end_capture(kCompute, &graph), 0) << name;
    expect_says(gpu->message(), {name});
    EXPECT_EQ(gpu->error(), 0) << name;
  }
}

TEST(EmulatedGpu, EverythingIsGivenBack) {
  const Alive before = cuda_emulation::alive();
  {
    OpenedDevice gpu;
    gpu.on_device<float>(1000);
    gpu.on_host<float>(1000);
    gpu.event();
    gpu.ok(gpu->begin_capture(kCompute));
    device::Graph* graph = nullptr;
    gpu.ok(gpu->end_capture(kCompute, &graph));
    EXPECT_EQ(cuda_emulation::alive(), (Alive{.allocations = before.allocations + 2,
                                              .streams = before.streams + 2,
                                              .events = before.events + 1,
                                              .graphs = before.graphs + 1,
                                              .contexts = before.contexts + 1}));
    gpu->free_graph(graph);
  }
  EXPECT_EQ(cuda_emulation::alive(), before);
  EXPECT_THROW(OpenedDevice(63), Error);
  EXPECT_EQ(cuda_emulation::alive(), before);
}

TEST(EmulatedGpu, MemoryThatIsNotThereIsNotTaken) {
  const Alive before = cuda_emulation::alive();
  cuda_emulation::set_memory(int64_t{64} << 20);
  {
    OpenedDevice gpu;
    gpu.on_device<char>(int64_t{40} << 20);
    void* memory = nullptr;
    EXPECT_EQ(gpu->allocate(int64_t{40} << 20, &memory), static_cast<int32_t>(Code::kOutOfMemory));
    expect_says(gpu->message(), {std::to_string(24 << 20)});
  }
  EXPECT_EQ(cuda_emulation::alive(), before);
  cuda_emulation::set_memory(int64_t{2} << 30);
}

}  // namespace emulated_faults_test
}  // namespace hawser::testing
