// Promises of the norms in addition to agreement with their reference (op_cases_test.cc).
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "kernels/include/levels.h"
#include "kernels/include/table.h"
#include "tests/harness/kernel_levels.h"
#include "tests/harness/test_stream.h"

namespace hawser::kernels {
namespace norm_test {

TEST(Norm, ARowOfEqualValuesNormalisesToTheBias) {
  const KernelTable& table = cpu_kernels(best_cpu_level());
  testing::SerialStream stream;
  const std::vector<float> x(75, 1000.0f), weight(75, 3.0f), bias(75, -2.0f);
  std::vector<float> y(75, NAN);
  float mean = NAN, rstd = NAN;
  NormForward a;
  a.y = y.data();
  a.mean = &mean;
  a.rstd = &rstd;
  a.x = x.data();
  a.weight = weight.data();
  a.bias = bias.data();
  a.rows = 1;
  a.d = a.x_stride = a.y_stride = 75;
  table.norm_forward(a, stream);
  for (const float value : y) EXPECT_NEAR(value, -2.0f, 0.1f);
  EXPECT_TRUE(std::isfinite(rstd));
}

TEST(Norm, AFarMeanCostsNoPrecision) {
  const KernelTable& table = cpu_kernels(best_cpu_level());
  testing::SerialStream stream;
  std::vector<float> x(512), y(512), weight(512, 1.0f);
  for (size_t i = 0; i < x.size(); ++i) x[i] = 4096.0f + (i % 2 == 0 ? 1.0f : -1.0f);
  float mean, rstd;
  NormForward a;
  a.y = y.data();
  a.mean = &mean;
  a.rstd = &rstd;
  a.x = x.data();
  a.weight = weight.data();
  a.rows = 1;
  a.d = a.x_stride = a.y_stride = 512;
  table.norm_forward(a, stream);
  EXPECT_EQ(mean, 4096.0f);
  for (size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], i % 2 == 0 ? 1.0f : -1.0f, 1e-5f);
}

TEST(Norm, WorkspaceDoesNotGrowWithWorkers) {
  const KernelTable& table = cpu_kernels(best_cpu_level());
  NormBackward a;
  a.rows = 1000;
  a.d = 768;
  EXPECT_EQ(table.norm_backward_workspace_bytes(a, 1), table.norm_backward_workspace_bytes(a, 64));
}

TEST(Norm, NoRowsGiveNoGradient) {
  const KernelTable& table = cpu_kernels(best_cpu_level());
  testing::SerialStream stream;
  const std::vector<float> weight(10, 1.0f);
  std::vector<float> dweight(10, NAN), workspace(4096);
  NormBackward a;
  a.d = 10;
  a.weight = weight.data();
  a.dweight = dweight.data();
  a.workspace = workspace.data();
  ASSERT_LE(table.norm_backward_workspace_bytes(a, 1), 4096 * 4);
  table.norm_backward(a, stream);
  EXPECT_EQ(dweight, std::vector<float>(10, 0.0f));
}

/// Returns y of a forward and of the backward after it: 3 rows of 75, as bits.
std::array<std::vector<uint16_t>, 2> outputs(const KernelTable& table, bool rms, bool bias, DType y_type) {
  constexpr int64_t kRows = 3, kD = 75;
  testing::SerialStream stream;
  std::vector<float> x(kRows * kD), weight(kD), shift(kD), dy(kRows * kD, 1.0f), dx = dy, dweight(kD),
                                                                                 dbias(kD);
  for (size_t i = 0; i < x.size(); ++i) x[i] = 0.173f * static_cast<float>(i % 89) - 7.0f;
  for (size_t i = 0; i < weight.size(); ++i) {
    weight[i] = 1.0f - 0.037f * static_cast<float>(i);
    shift[i] = 0.011f * static_cast<float>(i);
  }
  std::vector<float> mean(kRows), rstd(kRows);
  std::array<std::vector<uint16_t>, 2> y;
  y.fill(std::vector<uint16_t>(2 * kRows * kD));
  NormForward f;
  f.y = y[0].data();
  f.mean = rms ? nullptr : mean.data();
  f.rstd = rstd.data();
  f.x = x.data(), f.weight = weight.data(), f.bias = bias ? shift.data() : nullptr;
  f.y_type = y_type;
  f.rows = kRows, f.d = f.x_stride = f.y_stride = kD;
  f.weight_offset = 0.3f;
  table.norm_forward(f, stream);
  NormBackward b;
  b.y = y[1].data();
  b.mean = f.mean, b.rstd = f.rstd;
  b.x = f.x, b.weight = f.weight, b.bias = f.bias, b.dy = dy.data(), b.dx = dx.data();
  b.dweight = dweight.data(), b.dbias = bias ? dbias.data() : nullptr;
  b.y_type = y_type;
  b.rows = kRows, b.d = b.x_stride = b.y_stride = b.dx_stride = b.dy_stride = kD;
  b.weight_offset = f.weight_offset;
  std::vector<char> workspace(static_cast<size_t>(table.norm_backward_workspace_bytes(b, 1)));
  b.workspace = workspace.data();
  table.norm_backward(b, stream);
  return y;
}

TEST(Norm, BackwardGivesTheForwardOnceMoreBitForBit) {
  for (const KernelTable* table : testing::kernel_tables()) {
    for (const auto& [rms, bias] : {std::pair{true, false}, {false, false}, {false, true}}) {
      for (const DType y_type : {DType::kF32, DType::kBf16}) {
        const auto [forward, backward] = outputs(*table, rms, bias, y_type);
        EXPECT_TRUE(forward == backward) << table->name << ", RMSNorm " << rms << ", bias " << bias;
        EXPECT_NE(forward[0], 0);
      }
    }
  }
}

}  // namespace norm_test
}  // namespace hawser::kernels
