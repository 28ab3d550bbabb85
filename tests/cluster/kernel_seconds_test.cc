// Tests the seconds of kernels against arithmetic done by hand.
#include "engine/cluster/kernel_seconds.h"

#include <gtest/gtest.h>

namespace hawser::testing {
namespace kernel_seconds_test {

using cluster::DeviceRates;
using cluster::matmul_rate;
using cluster::seconds_of;
using cluster::used_tiles;

DeviceRates device() {
  DeviceRates d;
  d.peak_flops = {{DType::kF32, 1e12}, {DType::kBf16, 8e12}};
  d.matmul.efficiency = 0.5;
  d.attention_forward = {{DType::kBf16, 1024, 64, 2e12}, {DType::kBf16, 8192, 128, 4e12}};
  d.attention_backward = {{DType::kBf16, 1024, 64, 1e12}};
  d.bytes_per_second = 1e12, d.efficiency = 0.5;
  d.kernels["adamw"] = 8e11;
  return d;
}

KernelCalls product(int64_t m, int64_t n, int64_t k, int64_t calls = 1) {
  KernelCalls c;
  c.kernel = "matmul", c.type = DType::kBf16, c.m = m, c.n = n, c.k = k, c.calls = calls;
  c.flops = 2.0 * static_cast<double>(m * n * k * calls);
  c.bytes = 2.0 * static_cast<double>((m * k + k * n + m * n) * calls);
  return c;
}

TEST(KernelSeconds, ProductsTakeTheLongerOfArithmeticAndMemory) {
  const DeviceRates d = device();
  EXPECT_DOUBLE_EQ(seconds_of(d, product(1024, 1024, 1024, 3), false), 3 * 2.0 * (1 << 30) / 4e12);
  EXPECT_DOUBLE_EQ(seconds_of(d, product(1, 1024, 1024), false), 2.0 * (1024 + 1024 * 1024 + 1024) / 5e11);
}

TEST(KernelSeconds, ATypeWithoutPeakHasThatOfF32) {
  EXPECT_DOUBLE_EQ(matmul_rate(device(), DType::kF16, 64, 64, 64), 0.5e12);
}

TEST(KernelSeconds, TilesFillWaves) {
  const cluster::MatmulModel model{1, 128, 256, 132};
  EXPECT_DOUBLE_EQ(used_tiles(model, 132 * 128, 256, 512), 1);
  EXPECT_DOUBLE_EQ(used_tiles(model, 133 * 128, 256, 512), 133.0 / 264);  // one tile more: a second wave
  EXPECT_DOUBLE_EQ(used_tiles(model, 256, 132 * 128, 512), 1);            // the tile lies the other way
  EXPECT_DOUBLE_EQ(used_tiles(model, 64, 256, 512), 0.5 / 132);
  EXPECT_DOUBLE_EQ(used_tiles(model, 128, 256, 4096), 4.0 / 132);  // k is split in pieces of 1024
  EXPECT_DOUBLE_EQ(used_tiles({1, 0, 0, 0}, 1, 1, 1), 1);
}

TEST(KernelSeconds, MeasuredProductsComeBeforeTheModel) {
  DeviceRates d = device();
  d.matmul_points = {{DType::kBf16, 1024, 1024, 1024, 6e12},
                     {DType::kBf16, 64, 1024, 1024, 1e12},
                     {DType::kF32, 1024, 1024, 1024, 9e11}};
  EXPECT_EQ(matmul_rate(d, DType::kBf16, 1024, 1024, 1024), 6e12);
  EXPECT_EQ(matmul_rate(d, DType::kBf16, 300, 1024, 1024), 6e12);  // 256 is as far from both
  EXPECT_EQ(matmul_rate(d, DType::kBf16, 200, 1024, 1024), 1e12);
  EXPECT_EQ(matmul_rate(d, DType::kF32, 1, 1, 1), 9e11);
  EXPECT_EQ(matmul_rate(d, DType::kF16, 1024, 1024, 1024), 0.5e12);  // no point of its type
}

TEST(KernelSeconds, AttentionGoesByDirectionLengthAndHead) {
  KernelCalls c;
  c.kernel = "attention_forward", c.type = DType::kBf16, c.length = 1024, c.head_dim = 64;
  c.calls = 1, c.flops = 4e12;
  EXPECT_DOUBLE_EQ(seconds_of(device(), c, false), 2);
  c.length = 4096, c.head_dim = 128;
  EXPECT_DOUBLE_EQ(seconds_of(device(), c, false), 1);
  c.kernel = "attention_backward";
  EXPECT_DOUBLE_EQ(seconds_of(device(), c, false), 4);
  c.type = DType::kF32;  // an eighth of the peak of bf16
  EXPECT_DOUBLE_EQ(seconds_of(device(), c, false), 32);
}

TEST(KernelSeconds, TheRestTakesItsBytes) {
  KernelCalls c;
  c.kernel = "rope", c.calls = 2, c.bytes = 1e12;
  EXPECT_DOUBLE_EQ(seconds_of(device(), c, false), 2);
  c.kernel = "adamw";
  EXPECT_DOUBLE_EQ(seconds_of(device(), c, false), 1.25);
}

TEST(KernelSeconds, ALaunchBoundsShortKernels) {
  DeviceRates d = device();
  d.launch_seconds = 1;
  KernelCalls c;
  c.kernel = "rope", c.calls = 3, c.bytes = 3e11;
  EXPECT_DOUBLE_EQ(seconds_of(d, c, true), 3);
  EXPECT_DOUBLE_EQ(seconds_of(d, c, false), 0.6);
  c.bytes = 3e12;
  EXPECT_DOUBLE_EQ(seconds_of(d, c, true), 6);
}

}  // namespace kernel_seconds_test
}  // namespace hawser::testing
