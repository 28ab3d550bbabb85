// The rounding of operands to fp8 on every level: all 256 codes of both formats with all exponents, all f32
// around each midpoint, numbers above the maximum, and the maximum itself.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/cpu/fp8_reference.h"
#include "tests/harness/guarded_buffer.h"
#include "tests/harness/kernel_levels.h"
#include "tests/harness/test_stream.h"

namespace hawser::kernels {
namespace fp8_round_test {

using testing::GuardedBuffer;
using testing::SerialStream;
using testing::TaskOrder;

constexpr DType kTypes[] = {DType::kE4m3Block, DType::kE5m2Block};

std::vector<float> rounded(const KernelTable& table, DType type, float maximum, int32_t margin,
                           const std::vector<float>& x) {
  const auto n = static_cast<int64_t>(x.size());
  GuardedBuffer<uint16_t> y(n);
  SerialStream stream(3, TaskOrder::kShuffled);
  table.fp8_round({y.data(), x.data(), DType::kF32, type, 1, n, n, n, &maximum, margin}, stream);
  EXPECT_TRUE(y.intact()) << table.name;
  std::vector<float> wide;
  for (int64_t i = 0; i < n; ++i) wide.push_back(testing::from_bf16(y.data()[i]));
  return wide;
}

double largest_of(const Fp8Format& f) { return fp8_number(f, f.largest_code); }

TEST(Fp8Round, KeepsTheNumberOfEveryCode) {
  for (const DType type : kTypes) {
    const Fp8Format f = fp8_format(type);
    for (int e = f.least_exponent - 127; e <= f.largest_exponent - 127; ++e) {
      const int largest = e == f.largest_exponent - 127 ? f.code_at_largest : f.largest_code;
      std::vector<float> x;
      for (int code = 0; code < 256; ++code)
        if ((code & 0x7f) <= largest) x.push_back(static_cast<float>(std::ldexp(fp8_number(f, code), e)));
      const auto maximum = static_cast<float>(std::ldexp(fp8_number(f, largest), e));
      for (const KernelTable* table : testing::kernel_tables()) {
        const std::vector<float> y = rounded(*table, type, maximum, 0, x);
        for (size_t i = 0; i < x.size(); ++i) {
          ASSERT_EQ(y[i], x[i]) << table->name << " exponent " << e;
          ASSERT_EQ(std::signbit(y[i]), std::signbit(x[i])) << table->name << " of " << x[i];
        }
      }
    }
  }
}

/// With margins, the same numbers are rounded in units that are larger by as many powers of two.
TEST(Fp8Round, RoundsToNearestEvenAroundEveryMidpoint) {
  for (const DType type : kTypes)
    for (const int32_t margin : {0, 1, 5}) {
      const Fp8Format f = fp8_format(type);
      const auto maximum = static_cast<float>(std::ldexp(largest_of(f), -margin));
      std::vector<float> x, want;
      const auto add = [&](float value, int code) {
        for (const float sign : {1.0f, -1.0f})
          x.push_back(sign * value), want.push_back(sign * static_cast<float>(fp8_number(f, code)));
      };
      for (int code = 0; code < f.largest_code; ++code) {
        const auto middle = static_cast<float>((fp8_number(f, code) + fp8_number(f, code + 1)) / 2);
        add(middle, code % 2 == 0 ? code : code + 1);
        add(std::nextafter(middle, 0.0f), code);
        add(std::nextafter(middle, INFINITY), code + 1);
      }
      add(std::numeric_limits<float>::denorm_min(), 0);
      for (const KernelTable* table : testing::kernel_tables()) {
        const std::vector<float> y = rounded(*table, type, maximum, margin, x);
        for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(y[i], want[i]) << table->name << " of " << x[i];
      }
    }
}

/// A maximum of earlier steps may be too small.
TEST(Fp8Round, NumbersAboveTheMaximumSaturateAndOnlyBadOnesBecomeNaN) {
  for (const DType type : kTypes) {
    const auto largest = static_cast<float>(largest_of(fp8_format(type)));
    const std::vector<float> x = {
        largest * 1.2f, -largest * 3, std::numeric_limits<float>::max(), 1.0f, INFINITY, -INFINITY, NAN};
    for (const KernelTable* table : testing::kernel_tables()) {
      const std::vector<float> y = rounded(*table, type, largest, 0, x);
      EXPECT_EQ(y[0], largest) << table->name;
      EXPECT_EQ(y[1], -largest) << table->name;
      EXPECT_EQ(y[2], largest) << table->name;
      EXPECT_EQ(y[3], 1.0f) << table->name;
      for (size_t i = 4; i < x.size(); ++i) EXPECT_TRUE(std::isnan(y[i])) << table->name << " of " << x[i];
    }
  }
}

/// A record is a tensor of 128 numbers.
TEST(Fp8Round, AgreesWithRecordsOfTheSameNumbers) {
  for (const DType type : kTypes)
    for (int power = -140; power <= 127; power += 3) {
      std::vector<float> x;
      for (int i = 0; i < kFp8Block; ++i)
        x.push_back(std::ldexp(1.0f + static_cast<float>(i * 37 % 128) / 128, power - i % 23) *
                    (i % 2 == 0 ? 1.0f : -1.0f));
      float maximum = 0;
      for (const float v : x) maximum = std::max(maximum, std::abs(v));
      const std::vector<uint8_t> record = fp8_record(fp8_format(type), x);
      for (const KernelTable* table : testing::kernel_tables()) {
        const std::vector<float> y = rounded(*table, type, maximum, 0, x);
        for (int64_t i = 0; i < kFp8Block; ++i)
          ASSERT_EQ(static_cast<double>(y[static_cast<size_t>(i)]),
                    fp8_decoded(fp8_format(type), record.data(), i))
              << table->name << " of " << x[static_cast<size_t>(i)] << " at 2^" << power;
      }
    }
}

/// Some numbers saturate, are subnormal or are not finite, and the last record is not full.
TEST(Fp8Round, RecordsOfAGivenMaximumHoldTheRoundedNumbers) {
  constexpr int64_t kNumbers = 300;
  for (const DType type : kTypes)
    for (const float maximum : {0.0f, 0x1p-126f, 1.0f, 3.0f, 0x1p127f})
      for (const int32_t margin : {0, 5}) {
        std::vector<float> x;
        for (int i = 0; i < kNumbers; ++i)
          x.push_back(std::ldexp(1.0f + static_cast<float>(i * 37 % 128) / 128, i % 250 - 126) *
                      (i % 3 == 0 ? -1.0f : 1.0f));
        for (size_t i = 5; i < 128; i += 31) x[i] = i % 2 == 0 ? INFINITY : NAN;
        for (const KernelTable* table : testing::kernel_tables()) {
          SerialStream stream(3, TaskOrder::kShuffled);
          std::vector<uint8_t> records(static_cast<size_t>(dtype_bytes(type, kNumbers)));
          table->fp8_encode({records.data(), type, x.data(), DType::kF32, 1, kNumbers, &maximum, margin},
                            stream);
          std::vector<float> got(x.size());
          table->fp8_decode({got.data(), DType::kF32, records.data(), type, 1, kNumbers}, stream);
          const std::vector<float> want = rounded(*table, type, maximum, margin, x);
          for (size_t i = 0; i < x.size(); ++i)
            ASSERT_TRUE(std::isnan(want[i]) ? std::isnan(got[i]) : got[i] == want[i])
                << table->name << " " << x[i] << " with " << maximum << ": " << got[i] << ", not " << want[i];
        }
      }
}

/// Each number is once the only large one, so no lane, row or task is left out.
TEST(Fp8Round, TheMaximumIsThatOfEveryNumber) {
  constexpr int64_t kRows = 70, kNumbers = 301;
  for (const KernelTable* table : testing::kernel_tables()) {
    std::vector<float> x(static_cast<size_t>(kRows * kNumbers), -0.5f);
    for (int64_t i = 0; i < kRows * kNumbers; i += 97) {
      const auto at = static_cast<size_t>(i);
      x[at] = -3.0f;
      float maximum = -1;
      SerialStream stream(3, TaskOrder::kShuffled);
      table->fp8_maximum({&maximum, x.data(), DType::kF32, kRows, kNumbers, kNumbers}, stream);
      ASSERT_EQ(maximum, 3.0f) << table->name << " number " << i;
      x[at] = INFINITY;
      table->fp8_maximum({&maximum, x.data(), DType::kF32, kRows, kNumbers, kNumbers}, stream);
      ASSERT_EQ(maximum, 0.5f) << table->name << " number " << i;
      x[at] = -0.5f;
    }
  }
}

}  // namespace fp8_round_test
}  // namespace hawser::kernels
