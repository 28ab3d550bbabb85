// What the norms promise beyond agreeing with their reference (op_cases_test.cc).
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/include/levels.h"
#include "kernels/include/table.h"
#include "tests/harness/test_stream.h"

namespace hawser::kernels {
namespace {

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

}  // namespace
}  // namespace hawser::kernels
