// Number format test: every 16-bit pattern survives widening and narrowing; other values round to nearest
// even.
#include "engine/checkpoint/hf/number_format.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace hawser::checkpoint::hf {
namespace number_format_test {

TEST(NumberFormat, EveryStoredPatternComesBack) {
  for (const DType dtype : {DType::kBf16, DType::kF16})
    for (uint32_t pattern = 0; pattern < 65536; ++pattern) {
      const uint16_t stored = static_cast<uint16_t>(pattern);
      float wide;
      uint16_t back = 0;
      widen(dtype, &stored, 1, &wide);
      EXPECT_EQ(narrow(dtype, &wide, 1, &back), -1);
      ASSERT_EQ(back, stored) << dtype_name(dtype) << " " << pattern;
    }
}

TEST(NumberFormat, HalvesHaveTheValuesOfIeee754) {
  const auto value = [](uint16_t bits) {
    float wide;
    widen(DType::kF16, &bits, 1, &wide);
    return wide;
  };
  EXPECT_EQ(value(0x3c00), 1.0f);
  EXPECT_EQ(value(0xc000), -2.0f);
  EXPECT_EQ(value(0x7bff), 65504.0f);
  EXPECT_EQ(value(0x0400), std::ldexp(1.0f, -14));
  EXPECT_EQ(value(0x0001), std::ldexp(1.0f, -24));
  EXPECT_EQ(value(0x03ff), 1023 * std::ldexp(1.0f, -24));
  EXPECT_TRUE(std::isinf(value(0x7c00)));
  EXPECT_TRUE(std::isnan(value(0x7c01)));
}

/// Returns the stored value nearest to `value`, ties to the even pattern, found by trying all of them.
uint16_t nearest(DType dtype, float value) {
  uint16_t best = 0;
  double distance = std::numeric_limits<double>::infinity();
  const uint16_t infinity = dtype == DType::kBf16 ? 0x7f80 : 0x7c00;
  for (uint16_t magnitude = 0; magnitude < infinity; ++magnitude) {
    float wide;
    widen(dtype, &magnitude, 1, &wide);
    const double d = std::abs(static_cast<double>(wide) - std::abs(static_cast<double>(value)));
    if (d < distance || (d == distance && magnitude % 2 == 0)) {
      distance = d;
      best = magnitude;
    }
  }
  return static_cast<uint16_t>(best | (std::signbit(value) ? 0x8000 : 0));
}

TEST(NumberFormat, RoundsToNearestEven) {
  uint32_t state = 1;
  for (const DType dtype : {DType::kBf16, DType::kF16})
    for (int i = 0; i < 60; ++i) {
      state = state * 1664525u + 1013904223u;
      float value = std::ldexp(static_cast<float>(state >> 8), i % 2 == 0 ? -24 - i % 26 : -20);
      if (i % 3 == 0)
        value = std::ldexp(static_cast<float>(2 * (state >> 24) + 1), -25);  // ties among f16 subnormals
      if (i % 5 == 0) value = -value;
      uint16_t stored;
      narrow(dtype, &value, 1, &stored);
      ASSERT_EQ(stored, nearest(dtype, value)) << dtype_name(dtype) << " " << value;
    }
}

TEST(NumberFormat, ReportsWhatOnlyInfinityCouldHold) {
  const float values[] = {65504.0f, 65519.0f, std::numeric_limits<float>::infinity(), -65520.0f, 1e9f};
  uint16_t stored[5];
  EXPECT_EQ(narrow(DType::kF16, values, 5, stored), 3);
  EXPECT_EQ(stored[1], 0x7bff);
  EXPECT_EQ(narrow(DType::kBf16, values, 5, stored), -1);
  const float most = std::numeric_limits<float>::max();
  EXPECT_EQ(narrow(DType::kBf16, &most, 1, stored), 0);
}

}  // namespace number_format_test
}  // namespace hawser::checkpoint::hf
