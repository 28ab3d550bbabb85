// Promises of the activations in addition to agreement with their reference (op_cases_test.cc): extreme
// arguments.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/include/levels.h"
#include "kernels/include/table.h"
#include "tests/harness/kernel_levels.h"
#include "tests/harness/test_stream.h"

namespace hawser::kernels {
namespace activation_test {

class ActivationEnds : public ::testing::TestWithParam<Activation> {
 protected:
  /// The activation that needs a gate has up = 0, whose factor is 1.
  bool gated() const { return GetParam() == Activation::kClampedSilu; }
};

TEST_P(ActivationEnds, LargeInputsPassOrVanishAndSlopesStayFinite) {
  const KernelTable& table = cpu_kernels(best_cpu_level());
  testing::SerialStream stream;
  std::vector<float> h = {0.0f, 50.0f, -50.0f, 1000.0f, -1000.0f, 1e10f, -1e10f, 1e30f, -1e30f};
  const size_t f = h.size();
  const auto n = static_cast<int64_t>(f);
  h.resize(gated() ? 2 * f : f);
  const std::vector<float> dy(f, 1.0f);
  std::vector<float> y(f, NAN), dh(h.size(), NAN);
  table.activation_forward({y.data(), h.data(), DType::kF32, 1, n, GetParam(), gated()}, stream);
  table.activation_backward({dh.data(), dy.data(), h.data(), DType::kF32, 1, n, GetParam(), gated()}, stream);
  const bool clamped = GetParam() == Activation::kClampedSilu;
  const float most = kSiluLimit / (1.0f + std::exp(-kSiluLimit * kSiluSlope));
  EXPECT_EQ(y[0], 0.0f);
  EXPECT_NEAR(dh[0], 0.5f, 1e-6f);
  for (size_t i = 1; i < f; i += 2) {
    EXPECT_NEAR(y[i], clamped ? most : h[i], clamped ? 1e-6f : 0.0f);
    EXPECT_NEAR(dh[i], clamped ? 0.0f : 1.0f, 1e-6f);
    EXPECT_NEAR(y[i + 1], 0.0f, 1e-6f);
    EXPECT_NEAR(dh[i + 1], 0.0f, 1e-6f);
  }
}

TEST_P(ActivationEnds, NaNStaysNaN) {
  const KernelTable& table = cpu_kernels(best_cpu_level());
  testing::SerialStream stream;
  const std::vector<float> h(gated() ? 40 : 20, std::numeric_limits<float>::quiet_NaN()), dy(20, 1.0f);
  std::vector<float> y(20, 0.0f), dh(h.size(), 0.0f);
  table.activation_forward({y.data(), h.data(), DType::kF32, 4, 5, GetParam(), gated()}, stream);
  table.activation_backward({dh.data(), dy.data(), h.data(), DType::kF32, 4, 5, GetParam(), gated()}, stream);
  for (const float value : y) EXPECT_TRUE(std::isnan(value));
  for (const float value : dh) EXPECT_TRUE(std::isnan(value));
}

/// Expects that the backward recomputes y, for 3 rows of 37 whose values h holds as `type`.
template <class E>
void expect_y_again(const KernelTable& table, Activation kind, DType type, bool gated,
                    const std::vector<E>& h) {
  constexpr int64_t kRows = 3, kF = 37;
  testing::SerialStream stream;
  std::vector<E> y(kRows * kF), again = y, dy(y.size(), h[0]), dh(h.size());
  table.activation_forward({y.data(), h.data(), type, kRows, kF, kind, gated}, stream);
  table.activation_backward({dh.data(), dy.data(), h.data(), type, kRows, kF, kind, gated, again.data()},
                            stream);
  EXPECT_TRUE(again == y) << table.name << (gated ? ", gated" : "");
  std::vector<E> alone(h.size());
  table.activation_backward({alone.data(), dy.data(), h.data(), type, kRows, kF, kind, gated}, stream);
  EXPECT_TRUE(alone == dh) << table.name << (gated ? ", gated" : "");
}

TEST_P(ActivationEnds, BackwardGivesTheForwardOnceMoreBitForBit) {
  for (const KernelTable* table : testing::kernel_tables()) {
    for (const bool with_gate : {false, true}) {
      if (gated() && !with_gate) continue;
      std::vector<float> h;
      std::vector<uint16_t> narrow;
      for (int i = 0; i < 3 * 37 * (with_gate ? 2 : 1); ++i) {
        h.push_back(static_cast<float>(i % 101 - 50) * 0.1237f);
        narrow.push_back(testing::to_bf16(h.back()));
      }
      expect_y_again(*table, GetParam(), DType::kF32, with_gate, h);
      expect_y_again(*table, GetParam(), DType::kBf16, with_gate, narrow);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, ActivationEnds,
                         ::testing::Values(Activation::kGelu, Activation::kGeluTanh, Activation::kSilu,
                                           Activation::kClampedSilu));

}  // namespace activation_test
}  // namespace hawser::kernels
