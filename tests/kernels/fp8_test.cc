// Records of fp8 on every level: all 256 codes of both formats, all f32 around each midpoint, and the
// extremes of the exponent.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/cpu/fp8_reference.h"
#include "tests/harness/guarded_buffer.h"
#include "tests/harness/kernel_levels.h"
#include "tests/harness/test_stream.h"

namespace hawser::kernels {
namespace fp8_test {

using testing::GuardedBuffer;
using testing::SerialStream;
using testing::TaskOrder;

constexpr DType kTypes[] = {DType::kE4m3Block, DType::kE5m2Block};

std::vector<uint8_t> encoded(const KernelTable& table, DType type, const std::vector<float>& x) {
  const auto n = static_cast<int64_t>(x.size());
  GuardedBuffer<uint8_t> records(dtype_bytes(type, n));
  SerialStream stream(3, TaskOrder::kShuffled);
  table.fp8_encode({records.data(), type, x.data(), DType::kF32, 1, n}, stream);
  EXPECT_TRUE(records.intact()) << table.name;
  return {records.data(), records.data() + records.size()};
}

std::vector<float> decoded(const KernelTable& table, DType type, const std::vector<uint8_t>& records,
                           int64_t n) {
  GuardedBuffer<float> y(n);
  SerialStream stream(3, TaskOrder::kShuffled);
  table.fp8_decode({y.data(), DType::kF32, records.data(), type, 1, n}, stream);
  EXPECT_TRUE(y.intact()) << table.name;
  return {y.data(), y.data() + n};
}

/// The numbers that the formats are known for (arXiv:2209.05433, table 1).
TEST(Fp8, ReferenceHasThePublishedNumbers) {
  EXPECT_EQ(fp8_number(kE4m3, 0x7e), 448);
  EXPECT_EQ(fp8_number(kE4m3, 0x08), 0x1p-6);
  EXPECT_EQ(fp8_number(kE4m3, 0x07), 0.875 * 0x1p-6);
  EXPECT_EQ(fp8_number(kE4m3, 0x01), 0x1p-9);
  EXPECT_TRUE(std::isnan(fp8_number(kE4m3, 0x7f)));
  EXPECT_EQ(fp8_number(kE5m2, 0x7b), 57344);
  EXPECT_EQ(fp8_number(kE5m2, 0x04), 0x1p-14);
  EXPECT_EQ(fp8_number(kE5m2, 0x03), 0.75 * 0x1p-14);
  EXPECT_EQ(fp8_number(kE5m2, 0x01), 0x1p-16);
  EXPECT_EQ(fp8_number(kE5m2, 0xfc), -INFINITY);
  EXPECT_TRUE(std::isnan(fp8_number(kE5m2, 0x7d)));
}

TEST(Fp8, DecodesAllCodesWithAllExponentsExactly) {
  for (const DType type : kTypes)
    for (const KernelTable* table : testing::kernel_tables())
      for (int exponent = fp8_format(type).least_exponent; exponent <= fp8_format(type).largest_exponent;
           ++exponent) {
        std::vector<uint8_t> records;
        for (int code = 0; code < 256; ++code) {
          records.push_back(static_cast<uint8_t>(code));
          if (code % kFp8Block == kFp8Block - 1) records.push_back(static_cast<uint8_t>(exponent));
        }
        const std::vector<float> y = decoded(*table, type, records, 256);
        for (int code = 0; code < 256; ++code) {
          const double want = std::ldexp(fp8_number(fp8_format(type), code), exponent - 127);
          const float got = y[static_cast<size_t>(code)];
          if (std::isnan(want)) {
            ASSERT_TRUE(std::isnan(got)) << table->name << " code " << code;
            continue;
          }
          if (std::abs(want) > static_cast<double>(std::numeric_limits<float>::max()))
            continue;  // never written
          ASSERT_EQ(static_cast<double>(got), want)
              << table->name << " code " << code << " exponent " << exponent;
          ASSERT_EQ(std::signbit(got), code >= 128);
          ASSERT_EQ(testing::from_bf16(testing::to_bf16(got)), got) << "no bf16: code " << code;
          ASSERT_TRUE(got == 0 || std::isnormal(got) || std::isinf(got)) << code << " " << exponent;
        }
      }
}

/// Each record begins with the largest number, which sets the exponent to that of 1.
TEST(Fp8, RoundsToNearestEvenAroundEveryMidpoint) {
  for (const DType type : kTypes) {
    const Fp8Format f = fp8_format(type);
    const auto largest = static_cast<float>(fp8_number(f, f.largest_code));
    std::vector<float> x;
    std::vector<int> want;
    const auto add = [&](double value, int code) {
      for (const int sign : {0, 0x80}) {
        if (x.size() % kFp8Block == 0) x.push_back(largest), want.push_back(f.largest_code);
        x.push_back(static_cast<float>(sign != 0 ? -value : value));
        want.push_back(code | sign);
      }
    };
    for (int code = 0; code < f.largest_code; ++code) {
      const auto middle = static_cast<float>((fp8_number(f, code) + fp8_number(f, code + 1)) / 2);
      add(fp8_number(f, code), code);
      add(middle, code % 2 == 0 ? code : code + 1);
      add(std::nextafter(middle, 0.0f), code);
      add(std::nextafter(middle, INFINITY), code + 1);
    }
    add(std::nextafter(largest, 0.0f), f.largest_code);
    add(std::numeric_limits<float>::denorm_min(), 0);
    while (x.size() % kFp8Block != 0) x.push_back(largest), want.push_back(f.largest_code);
    for (const KernelTable* table : testing::kernel_tables()) {
      const std::vector<uint8_t> records = encoded(*table, type, x);
      for (size_t i = 0; i < x.size(); ++i) {
        const size_t record = i / kFp8Block;
        ASSERT_EQ(records[record * kFp8Record + kFp8Block], 127);
        ASSERT_EQ(records[record * kFp8Record + i % kFp8Block], want[i]) << table->name << " of " << x[i];
      }
    }
  }
}

/// For the largest number of a record, at each power of two and next to 1.75 times it: the exponent is the
/// least under which it fits, and nothing overflows.
TEST(Fp8, ExponentIsTheLeastUnderWhichTheLargestNumberFits) {
  for (const DType type : kTypes) {
    const Fp8Format f = fp8_format(type);
    for (int power = -149; power <= 127; ++power)
      for (const float fraction : {1.0f, 1.75f, std::nextafter(1.75f, 2.0f), std::nextafter(2.0f, 1.0f)}) {
        const float most = std::ldexp(fraction, power);
        const std::vector<float> x = {0.0f, -0.0f, most, -most / 3};
        const std::vector<uint8_t> want = fp8_record(f, x);
        for (const KernelTable* table : testing::kernel_tables()) {
          const std::vector<uint8_t> record = encoded(*table, type, x);
          ASSERT_EQ(record, want) << table->name << " " << most;
          const std::vector<float> y = decoded(*table, type, record, 4);
          ASSERT_TRUE(std::isfinite(y[2]) && std::isfinite(y[3]));
          ASSERT_EQ(y[0], 0.0f);
          ASSERT_TRUE(std::signbit(y[1]) && y[1] == 0.0f);
          if (power < -100) continue;
          ASSERT_NEAR(y[2] / most, 1.0f, 0x1p-2f) << most;
          const bool least = want.back() == f.least_exponent;
          const double fits = std::ldexp(fp8_number(f, f.largest_code), want.back() - 127);
          ASSERT_TRUE(most <= fits && (least || most > fits / 2)) << most;
        }
      }
  }
}

TEST(Fp8, ARecordWithANumberThatIsNotFiniteIsNaN) {
  for (const DType type : kTypes)
    for (const float bad :
         {static_cast<float>(NAN), static_cast<float>(INFINITY), -static_cast<float>(INFINITY)})
      for (const KernelTable* table : testing::kernel_tables()) {
        std::vector<float> x(2 * kFp8Block, 1.0f);
        x[70] = bad;
        const std::vector<float> y = decoded(*table, type, encoded(*table, type, x), 2 * kFp8Block);
        for (size_t i = 0; i < y.size(); ++i)
          ASSERT_EQ(std::isnan(y[i]), i < static_cast<size_t>(kFp8Block)) << table->name << " " << i;
      }
}

}  // namespace fp8_test
}  // namespace hawser::kernels
