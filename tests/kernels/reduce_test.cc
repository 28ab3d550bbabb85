// Conversions, sums and additions on every level: they are exact if the contract is exact, have the same bits
// for every number of workers, and write nothing outside.
#include "kernels/include/reduce.h"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <limits>

#include "kernels/cpu/reduce_reference.h"
#include "tests/harness/guarded_buffer.h"
#include "tests/harness/kernel_levels.h"
#include "tests/harness/test_stream.h"

namespace hawser::kernels {
namespace reduce_test {

using testing::GuardedBuffer;
using testing::SerialStream;
using testing::TaskOrder;
using testing::TypedValues;

float bits_to_float(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, 4);
  return x;
}

/// Returns the value of IEEE half bits by its definition, in double.
double half_value(uint16_t x) {
  const int exponent = (x >> 10) & 31, fraction = x & 1023;
  const double sign = x & 0x8000 ? -1 : 1;
  if (exponent == 31) return fraction == 0 ? sign * HUGE_VAL : std::nan("");
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

template <class Y, class X>
std::vector<Y> convert(const KernelTable& table, const std::vector<X>& x, DType y_type, DType x_type,
                       int32_t workers) {
  GuardedBuffer<Y> y(static_cast<int64_t>(x.size()));
  SerialStream stream(workers, TaskOrder::kShuffled);
  table.convert({y.data(), x.data(), y_type, x_type, y.size()}, stream);
  EXPECT_TRUE(y.intact()) << table.name;
  return {y.data(), y.data() + y.size()};
}

TEST(Convert, AllSixteenBitPatternsWidenExactlyAndComeBack) {
  std::vector<uint16_t> all(65536);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
  for (const KernelTable* table : testing::kernel_tables()) {
    const auto from_half = convert<float>(*table, all, DType::kF32, DType::kF16, 3);
    const auto from_bf16 = convert<float>(*table, all, DType::kF32, DType::kBf16, 3);
    const auto half_again = convert<uint16_t>(*table, from_half, DType::kF16, DType::kF32, 2);
    const auto bf16_again = convert<uint16_t>(*table, from_bf16, DType::kBf16, DType::kF32, 2);
    for (size_t i = 0; i < all.size(); ++i) {
      const double half = half_value(all[i]), bf16 = testing::from_bf16(all[i]);
      if (half != half) {
        ASSERT_TRUE(std::isnan(from_half[i])) << table->name << i;
        ASSERT_GT(half_again[i] & 0x7fff, 0x7c00) << table->name << i;
      } else {
        ASSERT_EQ(half, from_half[i]) << table->name << i;
        ASSERT_EQ(all[i], half_again[i]) << table->name << i;
      }
      if (bf16 != bf16) {
        ASSERT_TRUE(std::isnan(from_bf16[i])) << table->name << i;
        ASSERT_GT(bf16_again[i] & 0x7fff, 0x7f80) << table->name << i;
      } else {
        ASSERT_EQ(all[i], bf16_again[i]) << table->name << i;
      }
    }
  }
}

TEST(Convert, NarrowingRoundsToNearestEven) {
  std::vector<float> x = {0.0f,
                          -0.0f,
                          1.0f,
                          65504.0f,
                          65519.99f,
                          65520.0f,
                          3.4e38f,
                          1e-45f,
                          5.9e-8f,
                          2.98e-8f,
                          bits_to_float(0x3f808000),
                          bits_to_float(0x3f818000),
                          bits_to_float(0x3f808001),
                          bits_to_float(0x7f7fffff),
                          bits_to_float(0x7f800001),
                          HUGE_VALF,
                          -HUGE_VALF,
                          std::ldexp(1.0f, -25),
                          std::ldexp(1.5f, -25),
                          std::ldexp(3.0f, -25),
                          std::ldexp(1.0f, -26)};
  std::mt19937 random(3);
  while (x.size() < 40001) x.push_back(bits_to_float(random()));  // all magnitudes
  while (x.size() < 80003)
    x.push_back(bits_to_float(0x32800000 + random() % 0x16000000));  // magnitudes of
                                                                     // half
  for (const KernelTable* table : testing::kernel_tables()) {
    const auto bf16 = convert<uint16_t>(*table, x, DType::kBf16, DType::kF32, 2);
    const auto half = convert<uint16_t>(*table, x, DType::kF16, DType::kF32, 2);
    for (size_t i = 0; i < x.size(); ++i) {
      if (std::isnan(x[i])) {
        ASSERT_TRUE(std::isnan(testing::from_bf16(bf16[i]))) << table->name;
        ASSERT_TRUE(std::isnan(half_value(half[i]))) << table->name;
        continue;
      }
      ASSERT_EQ(testing::to_bf16(x[i]), bf16[i]) << table->name << " " << x[i];
      const double got = half_value(half[i]);
      if (std::fabs(x[i]) >= 65520) {
        ASSERT_EQ(std::copysign(HUGE_VAL, x[i]), got) << table->name << " " << x[i];
        continue;
      }
      const double below =
          std::fabs(half_value(static_cast<uint16_t>((half[i] & 0x7fff) - ((half[i] & 0x7fff) > 0))));
      const double above = (half[i] & 0x7fff) == 0x7bff ? 65536.0 : half_value((half[i] & 0x7fff) + 1);
      const double magnitude = std::fabs(got), error = std::fabs(magnitude - std::fabs(x[i]));
      const bool even = (half[i] & 1) == 0;
      ASSERT_EQ(std::signbit(x[i]), (half[i] & 0x8000) != 0);
      for (const double other : {below, above}) {
        const double other_error = std::fabs(other - std::fabs(x[i]));
        ASSERT_TRUE(other == magnitude || error < other_error || (error == other_error && even))
            << table->name << " " << x[i] << " gave " << got;
      }
    }
  }
}

TEST(Convert, SameTypeCopiesAndHalvesMeetThroughFp32) {
  std::vector<uint16_t> x(1003);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<uint16_t>(i * 61);
  for (const KernelTable* table : testing::kernel_tables()) {
    EXPECT_EQ(x, convert<uint16_t>(*table, x, DType::kBf16, DType::kBf16, 1));
    const auto wide = convert<float>(*table, x, DType::kF32, DType::kF16, 1);
    EXPECT_EQ(convert<uint16_t>(*table, wide, DType::kBf16, DType::kF32, 1),
              convert<uint16_t>(*table, x, DType::kBf16, DType::kF16, 1));
    const auto wide_bf16 = convert<float>(*table, x, DType::kF32, DType::kBf16, 1);
    EXPECT_EQ(convert<uint16_t>(*table, wide_bf16, DType::kF16, DType::kF32, 1),
              convert<uint16_t>(*table, x, DType::kF16, DType::kBf16, 1));
  }
}

TEST(ColumnSum, MatchesTheLoopsAndIgnoresTheNumberOfWorkers) {
  std::mt19937 random(4);
  for (const DType type : {DType::kF32, DType::kBf16}) {
    for (const int64_t n : {1, 3, 8, 17, 63, 64, 65, 200}) {
      for (const int64_t rows : {0, 1, 2, 127, 128, 129, 400}) {
        ColumnSum args;
        args.type = type, args.rows = rows, args.n = n, args.stride = n + rows % 3;
        args.accumulate = (n + rows) % 2 == 0;
        TypedValues dy(type, rows * args.stride);
        dy.fill(random);
        args.dy = dy.data();
        std::vector<double> expected(static_cast<size_t>(n), 0.5);
        column_sum_reference(args, expected.data(), dy.values.data());
        for (const KernelTable* table : testing::kernel_tables()) {
          GuardedBuffer<float> first(n), again(n);
          for (GuardedBuffer<float>* out : {&first, &again}) {
            for (int64_t j = 0; j < n && args.accumulate; ++j) (*out)[j] = 0.5f;
            SerialStream stream(out == &first ? 1 : 3, TaskOrder::kDescending);
            GuardedBuffer<uint8_t> workspace(table->column_sum_workspace_bytes(args, stream.num_workers));
            args.workspace = workspace.data();
            args.dbias = out->data();
            table->column_sum(args, stream);
            EXPECT_TRUE(workspace.intact() && out->intact()) << table->name;
          }
          EXPECT_TRUE(first.same_bits(again)) << table->name;
          for (int64_t j = 0; j < n; ++j) {
            ASSERT_NEAR(expected[static_cast<size_t>(j)], first[j], 1e-5)
                << table->name << " n " << n << " rows " << rows;
          }
        }
      }
    }
  }
}

/// Returns the exact sum of the reference's blocks.
ExactSum squares_by_reference(const std::vector<double>& g) {
  const auto n = static_cast<int64_t>(g.size());
  std::vector<double> blocks(static_cast<size_t>((n + kNormBlock - 1) / kNormBlock));
  sum_of_squares_reference(n, blocks.data(), g.data());
  ExactSum sum;
  for (const double block : blocks) sum.add(block);
  return sum;
}

bool same_sum(ExactSum a, ExactSum b) {
  a.normalise();
  b.normalise();
  return std::memcmp(a.words, b.words, sizeof(a.words)) == 0;
}

void add_squares(const KernelTable& table, ExactSum* sum, const float* g, int64_t n, int32_t workers) {
  GuardedBuffer<ExactSum> workspace(kNormTasks);
  SerialStream stream(workers, TaskOrder::kShuffled);
  table.sum_of_squares({sum, g, n, workspace.data()}, stream);
  EXPECT_TRUE(workspace.intact()) << table.name;
}

TEST(SumOfSquares, IsTheExactSumOfTheBlocksOnEveryLevel) {
  std::mt19937 random(5);
  std::uniform_int_distribution<int> exponent(-149, 127);
  for (const int64_t n : {0, 1, 15, 16, 17, 63, 64, 65, 4097, 50000, 64 * 256 * 64 + 129, 1200001}) {
    TypedValues g(DType::kF32, n);
    g.fill(random);
    for (int64_t i = 0; i < n; i += 3) {  // all exponents, including subnormals
      g.set(i, std::ldexp(static_cast<float>(g.values[static_cast<size_t>(i)]), exponent(random)));
    }
    const ExactSum expected = squares_by_reference(g.values);
    for (const KernelTable* table : testing::kernel_tables()) {
      for (const int32_t workers : {1, 3}) {
        ExactSum sum;
        add_squares(*table, &sum, static_cast<const float*>(g.data()), n, workers);
        EXPECT_TRUE(same_sum(sum, expected)) << table->name << " n " << n;
      }
    }
  }
}

TEST(SumOfSquares, NoCutAtBlocksChangesABit) {
  std::mt19937 random(6);
  const int64_t n = 300 * kNormBlock + 11;
  TypedValues g(DType::kF32, n);
  for (int64_t i = 0; i < n; ++i) {  // exponents differ so much that sums within a block are rounded
    const float x = std::uniform_real_distribution<float>(1, 2)(random);
    g.set(i, std::ldexp(x, -static_cast<int>(random() % 24)));
  }
  const auto* data = static_cast<const float*>(g.data());
  const ExactSum expected = squares_by_reference(g.values);
  for (const KernelTable* table : testing::kernel_tables()) {
    for (int round = 0; round < 5; ++round) {
      ExactSum ranks[3];
      for (int64_t begin = 0; begin < n;) {
        const int64_t size = std::min<int64_t>(n - begin, static_cast<int64_t>(random() % 50) * kNormBlock);
        add_squares(*table, &ranks[random() % 3], data + begin, size, 2);
        begin += size;
      }
      ExactSum sum = ranks[2];
      sum.merge(ranks[0]);
      sum.merge(ranks[1]);
      EXPECT_TRUE(same_sum(sum, expected)) << table->name;
      EXPECT_EQ(sum.value(), expected.value()) << table->name;
    }
    ExactSum off;  // a division inside a block may change it, so the test can detect a difference
    for (int64_t begin = 0; begin < n; begin += 33) {
      add_squares(*table, &off, data + begin, std::min<int64_t>(33, n - begin), 1);
    }
    EXPECT_FALSE(same_sum(off, expected)) << table->name;
  }
}

TEST(SumOfSquares, AddsToWhatTheSumHolds) {
  const std::vector<float> g = {3, -4};
  for (const KernelTable* table : testing::kernel_tables()) {
    ExactSum sum;
    sum.add(-0.5);
    add_squares(*table, &sum, g.data(), 2, 1);
    add_squares(*table, &sum, g.data(), 1, 1);
    EXPECT_EQ(sum.value(), 33.5) << table->name;
  }
}

TEST(SumOfSquares, TellsInfinityFromNan) {
  for (const KernelTable* table : testing::kernel_tables()) {
    std::vector<float> g(1000, std::numeric_limits<float>::max());
    ExactSum sum;
    add_squares(*table, &sum, g.data(), 1000, 2);
    EXPECT_EQ(sum.value(), 1000 * std::pow(static_cast<double>(g[0]), 2)) << table->name;
    g[700] = -std::numeric_limits<float>::infinity();
    add_squares(*table, &sum, g.data(), 1000, 2);
    EXPECT_EQ(sum.value(), HUGE_VAL) << table->name;
    g[999] = std::numeric_limits<float>::quiet_NaN();
    add_squares(*table, &sum, g.data(), 1000, 2);
    EXPECT_TRUE(std::isnan(sum.value())) << table->name;
  }
}

TEST(Add, AddsAlsoInPlace) {
  for (const int64_t n : {0, 1, 15, 16, 17, 33000}) {
    for (const KernelTable* table : testing::kernel_tables()) {
      GuardedBuffer<float> a(n), b(n), y(n);
      for (int64_t i = 0; i < n; ++i)
        a[i] = static_cast<float>(i) * 0.37f, b[i] = 1.0f / static_cast<float>(i + 1);
      SerialStream stream(2);
      table->add({y.data(), a.data(), b.data(), n}, stream);
      for (int64_t i = 0; i < n; ++i) ASSERT_EQ(a[i] + b[i], y[i]) << table->name;
      table->add({a.data(), a.data(), b.data(), n}, stream);
      EXPECT_TRUE(a.same_bits(y) && a.intact() && b.intact() && y.intact()) << table->name;
    }
  }
}

TEST(ColumnSumReference, IsLinearUnderComplexStep) {
  using Complex = std::complex<double>;
  ColumnSum args;
  args.rows = 3, args.n = 2, args.stride = 2;
  std::vector<Complex> dy = {1, 2, 3, 4, 5, Complex(6, 1e-30)}, out(2);
  column_sum_reference(args, out.data(), dy.data());
  EXPECT_EQ(Complex(9, 0), out[0]);
  EXPECT_EQ(1.0, out[1].imag() / 1e-30);
}

}  // namespace reduce_test
}  // namespace hawser::kernels
