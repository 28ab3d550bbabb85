// Tests the emulator itself: it finds barriers that some threads miss, and refuses launches that a device
// would refuse.
#include <gtest/gtest.h>

#include <vector>

#include "tests/cuda_emulation/emulated_stream.h"
#include "tests/cuda_emulation/planted_mistakes.h"

namespace hawser::cuda_emulation {
namespace emulator_test {

std::vector<std::string> findings_of(Planted planted, Order order) {
  std::vector<float> out(kPlantedFloats);
  EmulatedStream stream;
  set_order(order);
  planted(out.data(), stream);
  set_order(Order::kAscending);
  EXPECT_EQ(stream.sticky.code, 0) << stream.sticky.message;
  return take_findings();
}

TEST(Emulator, FindsBarriersThatSomeThreadsMiss) {
  for (const Order order : {Order::kAscending, Order::kDescending, Order::kShuffled}) {
    const auto barrier = findings_of(barrier_for_half_a_block, order);
    ASSERT_EQ(barrier.size(), 1u);
    EXPECT_NE(barrier[0].find("128 wait at __syncthreads, 0 at a warp operation, 128 have ended"),
              std::string::npos)
        << barrier[0];
    const auto shuffle = findings_of(shuffle_for_half_a_warp, order);
    ASSERT_EQ(shuffle.size(), 1u);
    EXPECT_NE(shuffle[0].find("128 at a warp operation"), std::string::npos) << shuffle[0];
  }
}

TEST(Emulator, ComputesWhatADeviceWould) {
  std::vector<float> out(kPlantedFloats);
  run_in_order(Order::kShuffled,
               [&](kernels::cuda::CudaStream& stream) { reversed_with_barrier(out.data(), stream); });
  for (int i = 0; i < kPlantedFloats; ++i) ASSERT_EQ(out[static_cast<size_t>(i)], 255 - i % 256) << i;
}

TEST(Emulator, LoadsMatricesAsADeviceWould) {
  std::vector<float> out(kPlantedFloats);
  run_in_order(Order::kShuffled,
               [&](kernels::cuda::CudaStream& stream) { matrices_with_warp_barrier(out.data(), stream); });
  for (int i = 0; i < kPlantedFloats; ++i) {
    const int lane = i % 32, matrix = i % 4, row = matrix * 8 + lane / 4;  // lane `row` gave its address
    ASSERT_EQ(out[static_cast<size_t>(i)], 31 - row) << i;
  }
  const auto odd = findings_of(matrices_at_odd_places, Order::kAscending);
  ASSERT_EQ(odd.size(), 1u);
  EXPECT_NE(odd[0].find("no multiple of 16 bytes"), std::string::npos) << odd[0];
}

TEST(Emulator, RefusesLaunchesThatADeviceWouldRefuse) {
  EmulatedStream stream;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(1);
  config.blockDim = dim3(2048);
  EXPECT_FALSE(stream.succeeded(launch(
                                    config, [](void*) {}, nullptr),
                                "too_many_threads"));
  EXPECT_EQ(take_findings().size(), 1u);
  EXPECT_STREQ(stream.sticky.message,
               "too_many_threads: cudaErrorInvalidConfiguration: invalid configuration argument");
}

TEST(CudaStream, KeepsTheFirstErrorAndRunsNoHostLoops) {
  EmulatedStream stream;
  stream.run(
      &stream, 1, [](void*, int64_t, int32_t) { FAIL() << "a task ran"; }, nullptr);
  const std::string first = stream.sticky.message;
  EXPECT_NE(stream.sticky.code, 0);
  EXPECT_NE(first.find("a loop of host tasks"), std::string::npos) << first;
  stream.keep_unimplemented("later", "this");
  EXPECT_EQ(stream.sticky.message, first);
}

}  // namespace emulator_test
}  // namespace hawser::cuda_emulation
