// Bf16 products test: at level armv8.2-a+bf16, a product of bf16 values has the bits of the arithmetic that
// kernels/cpu/simd/neonbf16.h describes, here in scalar code: pairs of k in ascending order, each operation
// rounded to odd. So neither tiles, packing, threads nor the choice of BFMMLA or BFDOT can change a result.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/include/table.h"
#include "tests/harness/guarded_buffer.h"
#include "tests/harness/kernel_levels.h"
#include "tests/harness/test_stream.h"

namespace hawser::kernels {
namespace bf16_products_test {

using testing::GuardedBuffer;
using testing::SerialStream;
using testing::TaskOrder;
using testing::TypedValues;

/// Rounds high + low to odd, where |low| is at most half a unit of the last place of high: cuts off, and sets
/// the last bit of an inexact result. Magnitudes below 2^-126 become zero, those from 2^128 on infinity.
float round_to_odd(double high, double low) {
  if (std::isnan(high)) return std::numeric_limits<float>::quiet_NaN();
  if (high == 0) return static_cast<float>(high);
  if (std::isinf(high)) return static_cast<float>(high);
  const bool less = low != 0 && std::signbit(low) != std::signbit(high);  // the magnitude is below |high|
  const double magnitude = less ? std::nextafter(std::fabs(high), 0.0) : std::fabs(high);
  if (magnitude < 0x1p-126) return std::copysign(0.0f, static_cast<float>(std::copysign(1.0, high)));
  if (magnitude >= 0x1p128) return std::copysign(INFINITY, static_cast<float>(std::copysign(1.0, high)));
  const auto bits = std::bit_cast<uint64_t>(magnitude);
  constexpr uint64_t kCut = (uint64_t{1} << 29) - 1;  // bits of a double beyond those of a float
  const auto cut = static_cast<float>(std::bit_cast<double>(bits & ~kCut));
  const bool exact = (bits & kCut) == 0 && low == 0;
  const float odd = exact ? cut : std::bit_cast<float>(std::bit_cast<uint32_t>(cut) | 1u);
  return std::copysign(odd, static_cast<float>(std::copysign(1.0, high)));
}

float without_subnormal(float x) { return std::fabs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x; }

float multiply(float a, float b) {
  return round_to_odd(static_cast<double>(without_subnormal(a)) * without_subnormal(b), 0);
}

float add(float a, float b) {
  const double x = without_subnormal(a), y = without_subnormal(b), sum = x + y;
  if (!std::isfinite(sum)) return round_to_odd(sum, 0);
  const double of_y = sum - x;  // two-sum (Knuth): the error of the addition, exactly
  return round_to_odd(sum, (x - (sum - of_y)) + (y - of_y));
}

/// Multiplies m x k by k x n values of bf16 at the level, and in scalar code.
struct Case {
  int64_t m, n, k;
  bool a_transposed, b_transposed, accumulate, wide;
  int32_t workers;

  std::string name() const {
    return "m " + std::to_string(m) + " n " + std::to_string(n) + " k " + std::to_string(k) +
           (a_transposed ? " T" : " N") + (b_transposed ? "T" : "N") + (accumulate ? " accumulate" : "") +
           (wide ? " f32 a" : "") + " workers " + std::to_string(workers);
  }
};

float element(const Case& of, const TypedValues& a, const TypedValues& b, const SumBlocks& blocks, float c,
              int64_t i, int64_t j) {
  const auto value = [](const TypedValues& x, int64_t at) {
    return testing::from_bf16(testing::to_bf16(static_cast<float>(x.values[static_cast<size_t>(at)])));
  };
  const auto of_a = [&](int64_t p) {
    return p < of.k ? value(a, of.a_transposed ? p * of.m + i : i * of.k + p) : 0.0f;
  };
  const auto of_b = [&](int64_t p) {
    return p < of.k ? value(b, of.b_transposed ? j * of.k + p : p * of.n + j) : 0.0f;
  };
  const bool is_split = blocks.segment < of.k;
  float total = of.accumulate ? c : 0.0f, segment = 0;
  for (int64_t begin = 0; begin < of.k; begin += blocks.block) {
    float sum = 0;
    for (int64_t p = begin; p < std::min(of.k, begin + blocks.block); p += 2)
      sum = add(sum, add(multiply(of_a(p), of_b(p)), multiply(of_a(p + 1), of_b(p + 1))));
    float& into = is_split ? segment : total;
    const bool is_first = is_split ? begin % blocks.segment == 0 : begin == 0 && !of.accumulate;
    into = is_first ? sum : into + sum;
    const int64_t end = begin + blocks.block;
    if (is_split && (end % blocks.segment == 0 || end >= of.k)) total = total + segment;
  }
  return total;
}

/// `special`: also infinities, NaN, subnormal numbers, and numbers whose products overflow or underflow.
void fill(TypedValues& x, std::mt19937& random, bool special) {
  const float kSpecial[] = {INFINITY, -INFINITY, NAN, 0x1p-130f, -0x1.8p-127f, 0x1.fep127f, 0x1p-70f, -0.0f};
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (int64_t i = 0; i < static_cast<int64_t>(x.values.size()); ++i) {
    const bool here = special && random() % 40 == 0;
    const float scale = std::ldexp(1.0f, static_cast<int>(random() % (special ? 60 : 12)) - 6);
    x.set(i, here ? kSpecial[random() % std::size(kSpecial)] : uniform(random) * scale);
  }
}

void check(const KernelTable& table, const Case& of, uint32_t seed, bool special) {
  std::mt19937 random(seed);
  TypedValues a(of.wide ? DType::kF32 : DType::kBf16, of.m * of.k), b(DType::kBf16, of.k * of.n);
  fill(a, random, special), fill(b, random, special);
  GuardedBuffer<float> c(of.m * of.n);
  for (int64_t i = 0; i < of.m * of.n; ++i) c[i] = of.accumulate ? 0.375f : NAN;
  Matmul m;
  m.c = c.data(), m.a = a.data(), m.b = b.data(), m.a_type = a.type(), m.b_type = b.type();
  m.m = of.m, m.n = m.ldc = of.n, m.k = of.k;
  m.lda = of.a_transposed ? of.m : of.k, m.ldb = of.b_transposed ? of.k : of.n;
  m.a_transposed = of.a_transposed, m.b_transposed = of.b_transposed, m.accumulate = of.accumulate;
  SerialStream stream(of.workers, TaskOrder::kShuffled);
  GuardedBuffer<uint8_t> workspace(table.matmul_workspace_bytes(m, of.workers));
  m.workspace = workspace.data();
  table.matmul(m, stream);
  EXPECT_TRUE(c.intact() && workspace.intact()) << of.name();
  const SumBlocks blocks = table.matmul_sum_blocks(DType::kBf16, of.k);
  for (int64_t i = 0; i < of.m; ++i)
    for (int64_t j = 0; j < of.n; ++j) {
      const float wanted = element(of, a, b, blocks, 0.375f, i, j), got = c[i * of.n + j];
      if (std::isnan(wanted) && std::isnan(got)) continue;
      ASSERT_EQ(std::bit_cast<uint32_t>(wanted), std::bit_cast<uint32_t>(got))
          << of.name() << " at " << i << "," << j << ": " << wanted << " and " << got;
    }
}

const KernelTable* bf16_table() {
  return has_cpu_level(CpuLevel::kNeonBf16) ? &cpu_kernels(CpuLevel::kNeonBf16) : nullptr;
}

TEST(Bf16Products, RoundingToOddCutsOffAndSetsTheLastBit) {
  EXPECT_EQ(1.5f, add(1.0f, 0.5f));
  EXPECT_EQ(std::nextafter(1.0f, 2.0f), add(1.0f, 0x1p-40f));
  EXPECT_EQ(std::nextafter(1.0f, 0.0f), add(1.0f, -0x1p-40f));
  EXPECT_EQ(std::nextafter(1.0f, 2.0f), add(std::nextafter(1.0f, 2.0f), 0x1p-100f));
  EXPECT_EQ(-std::nextafter(1.0f, 2.0f), add(-1.0f, -0x1p-126f));
  EXPECT_EQ(0.0f, add(0x1.8p-126f, -0x1p-126f));
  EXPECT_EQ(0.0f, multiply(0x1p-127f, 0x1p100f));
  EXPECT_EQ(INFINITY, multiply(0x1p100f, 0x1p100f));
  EXPECT_EQ(-INFINITY, add(-0x1.fffffep127f, -0x1.fffffep127f));
}

TEST(Bf16Products, HaveTheBitsOfPairsInAscendingOrderRoundedToOdd) {
  const KernelTable* const table = bf16_table();
  if (table == nullptr) GTEST_SKIP() << "this processor has no BFMMLA";
  std::mt19937 random(11);
  for (const int64_t k : {1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 64, 101, 767, 768, 769, 1603}) {
    for (int i = 0; i < (k < 200 ? 6 : 2); ++i) {
      const int64_t sizes[] = {1, 2, 3, 7, 8, 11, 12, 13, 17, 25};
      const Case of{sizes[random() % 10],
                    sizes[random() % 10],
                    k,
                    random() % 2 == 0,
                    random() % 2 == 0,
                    random() % 2 == 0,
                    random() % 3 == 0,
                    static_cast<int32_t>(1 + i % 3)};
      check(*table, of, static_cast<uint32_t>(random()), i % 2 == 1);
      if (HasFatalFailure()) return;
    }
  }
}

/// A wide product, one of many rows, one of many of both, and a k so long that it is summed in segments.
TEST(Bf16Products, HaveTheSameBitsHoweverTheWorkIsDivided) {
  const KernelTable* const table = bf16_table();
  if (table == nullptr) GTEST_SKIP() << "this processor has no BFMMLA";
  for (const Case& of :
       {Case{5, 300, 70, false, true, false, false, 2}, Case{420, 10, 13, false, false, true, false, 2},
        Case{150, 150, 9, true, false, false, false, 3}, Case{3, 3, 24999, true, false, false, false, 3},
        Case{2, 5, 24600, false, true, true, true, 2}}) {
    check(*table, of, 5, false);
    if (HasFatalFailure()) return;
  }
}

}  // namespace bf16_products_test
}  // namespace hawser::kernels
