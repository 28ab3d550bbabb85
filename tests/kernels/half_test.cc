// Halves on every level: all f32 around each midpoint round as IEEE 754 says, and products read every code
// exactly, however it is packed.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/include/matmul.h"
#include "kernels/include/reduce.h"
#include "tests/harness/guarded_buffer.h"
#include "tests/harness/kernel_levels.h"
#include "tests/harness/test_stream.h"

namespace hawser::kernels {
namespace half_test {

using testing::GuardedBuffer;
using testing::SerialStream;
using testing::TaskOrder;

constexpr uint16_t kInfinity = 0x7c00;

/// Returns the value of a finite code by its definition.
double half_value(int code) {
  const int exponent = (code >> 10) & 31, fraction = code & 1023;
  return exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
}

std::vector<uint16_t> to_halves(const KernelTable& table, const std::vector<float>& x) {
  GuardedBuffer<uint16_t> y(static_cast<int64_t>(x.size()));
  SerialStream stream(3, TaskOrder::kShuffled);
  table.convert({y.data(), x.data(), DType::kF16, DType::kF32, y.size()}, stream);
  EXPECT_TRUE(y.intact()) << table.name;
  return {y.data(), y.data() + y.size()};
}

TEST(Half, RoundsToNearestEvenAroundEveryMidpoint) {
  std::vector<float> x;
  std::vector<uint16_t> want;
  const auto add = [&](float value, int code) {
    for (const float sign : {1.0f, -1.0f}) {
      x.push_back(sign * value);
      want.push_back(static_cast<uint16_t>(code | (sign < 0 ? 0x8000 : 0)));
    }
  };
  for (int code = 0; code < kInfinity; ++code) {
    // The code after the largest finite one is infinity, and rounds as if it were 2^16.
    const double next = code + 1 == kInfinity ? 65536.0 : half_value(code + 1);
    const auto middle = static_cast<float>((half_value(code) + next) / 2);
    ASSERT_EQ(static_cast<double>(middle), (half_value(code) + next) / 2);
    add(middle, code % 2 == 0 ? code : code + 1);
    add(std::nextafter(middle, 0.0f), code);
    add(std::nextafter(middle, INFINITY), code + 1);
  }
  add(std::numeric_limits<float>::max(), kInfinity);
  add(std::numeric_limits<float>::denorm_min(), 0);
  for (const KernelTable* table : testing::kernel_tables()) {
    const std::vector<uint16_t> got = to_halves(*table, x);
    for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(got[i], want[i]) << table->name << " of " << x[i];
  }
}

/// Every finite code is a row of op(a) times a unit matrix, stored in each of the four ways. The product must
/// give exactly its value, subnormal or not.
TEST(Half, ProductsReadEveryCodeExactly) {
  constexpr int64_t kColumns = 33;
  std::vector<uint16_t> codes, unit(kColumns * kColumns);
  for (int code = 0; code < kInfinity; ++code)
    for (const int sign : {0, 0x8000}) codes.push_back(static_cast<uint16_t>(code | sign));
  codes.resize((codes.size() + kColumns - 1) / kColumns * kColumns);
  const auto rows = static_cast<int64_t>(codes.size()) / kColumns;
  for (int64_t i = 0; i < kColumns; ++i) unit[static_cast<size_t>(i * kColumns + i)] = 0x3c00;
  for (const KernelTable* table : testing::kernel_tables()) {
    for (const bool a_transposed : {false, true}) {
      for (const bool b_transposed : {false, true}) {
        std::vector<uint16_t> a(codes.size());
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t j = 0; j < kColumns; ++j)
            a[static_cast<size_t>(a_transposed ? j * rows + r : r * kColumns + j)] =
                codes[static_cast<size_t>(r * kColumns + j)];
        GuardedBuffer<float> c(rows * kColumns);
        Matmul m;
        m.c = c.data(), m.a = a.data(), m.b = unit.data();
        m.a_type = m.b_type = DType::kF16;
        m.m = rows, m.n = m.k = m.ldb = m.ldc = kColumns, m.lda = a_transposed ? rows : kColumns;
        m.a_transposed = a_transposed, m.b_transposed = b_transposed;
        SerialStream stream(2, TaskOrder::kAscending);
        GuardedBuffer<uint8_t> workspace(table->matmul_workspace_bytes(m, stream.num_workers));
        m.workspace = workspace.data();
        table->matmul(m, stream);
        for (int64_t i = 0; i < c.size(); ++i) {
          const uint16_t code = codes[static_cast<size_t>(i)];
          const double value = (code & 0x8000) != 0 ? -half_value(code & 0x7fff) : half_value(code);
          ASSERT_EQ(static_cast<double>(c[i]), value) << table->name << " code " << code;
        }
      }
    }
  }
}

}  // namespace half_test
}  // namespace hawser::kernels
