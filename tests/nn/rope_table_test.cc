// Compares the table of rotary angles with each scaling's formula as its source states it, written
// differently from the engine: over wavelengths, with the ramps of the published code spelled out.
#include "engine/nn/rope_table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "engine/config/model_fields.h"

namespace hawser::nn {
namespace rope_table_test {

RopeConfig usual() { return config::default_model().rope; }

ModelConfig rotary(int64_t head_dim, RopeConfig rope) {
  ModelConfig m;
  m.position = Position::kRotary;
  m.head_dim = head_dim;
  m.rope = rope;
  m.rope.dim = head_dim;
  return m;
}

/// Expects every entry of the table to be (cos, sin) of position times frequency(j), times factor.
void expect_table(const ModelConfig& m, const std::function<double(int64_t)>& frequency, double factor) {
  constexpr int64_t kPositions = 300;
  ASSERT_EQ(rope_table_size(m, kPositions), kPositions * m.head_dim);
  std::vector<float> table(static_cast<size_t>(kPositions * m.head_dim), -9.0f);
  fill_rope_table(table.data(), m, kPositions);
  for (int64_t p = 0; p < kPositions; ++p) {
    for (int64_t j = 0; j < m.head_dim / 2; ++j) {
      const auto at = static_cast<size_t>(p * m.head_dim + 2 * j);
      const double angle = static_cast<double>(p) * frequency(j);
      ASSERT_NEAR(static_cast<double>(table[at]), factor * std::cos(angle), 1.5e-7 * factor) << p << " " << j;
      ASSERT_NEAR(static_cast<double>(table[at + 1]), factor * std::sin(angle), 1.5e-7 * factor)
          << p << " " << j;
    }
  }
}

double plain(double theta, int64_t j, int64_t head_dim) {
  return 1.0 / std::pow(theta, static_cast<double>(2 * j) / static_cast<double>(head_dim));
}

TEST(RopeTable, WithoutScalingTurnsByTheInversePowersOfTheta) {
  for (const int64_t d : {2, 6, 64, 128}) {
    for (const double theta : {10000.0, 500000.0}) {
      RopeConfig rope = usual();
      rope.theta = theta;
      expect_table(
          rotary(d, rope), [&](int64_t j) { return plain(theta, j, d); }, 1.0);
    }
  }
}

TEST(RopeTable, LinearScalingDividesPositions) {
  RopeConfig rope = usual();
  rope.scaling = RopeScaling::kLinear;
  rope.factor = 2.5;
  expect_table(
      rotary(16, rope), [](int64_t j) { return plain(10000.0, j, 16) / 2.5; }, 1.0);
}

TEST(RopeTable, Llama3ScalingKeepsShortWavesSlowsLongOnesAndBlendsBetween) {
  RopeConfig rope = usual();
  rope.theta = 500000.0;
  rope.scaling = RopeScaling::kLlama3;
  rope.factor = 8;
  rope.low_freq_factor = 1, rope.high_freq_factor = 4;
  rope.original_context = 8192;
  int kept = 0, slowed = 0, blended = 0;
  const auto frequency = [&](int64_t j) {
    // The turns are those in the original context.
    const double f = plain(rope.theta, j, 128), turns = 8192 * f / (2 * M_PI);
    if (turns > 4) return ++kept, f;
    if (turns < 1) return ++slowed, f / 8;
    ++blended;
    const double share = (turns - 1) / (4 - 1);
    return f * (share + (1 - share) / 8);
  };
  expect_table(rotary(128, rope), frequency, 1.0);
  EXPECT_TRUE(kept > 0 && slowed > 0 && blended > 0);
}

/// Returns the ramp of the YaRN paper's code: the dimension in which a wave makes `turns` turns in the
/// original context.
double yarn_dimension(double turns, const RopeConfig& r, int64_t d) {
  return static_cast<double>(d) / 2 * std::log(static_cast<double>(r.original_context) / (2 * M_PI * turns)) /
         std::log(r.theta);
}

double yarn_frequency(int64_t j, const RopeConfig& r, int64_t d) {
  double low = yarn_dimension(r.beta_fast, r, d), high = yarn_dimension(r.beta_slow, r, d);
  if (r.truncate) low = std::floor(low), high = std::ceil(high);
  if (low < 0) low = 0;
  if (high > static_cast<double>(d - 1)) high = static_cast<double>(d - 1);
  double interpolate = (static_cast<double>(j) - low) / (high - low);
  interpolate = interpolate < 0 ? 0 : interpolate > 1 ? 1 : interpolate;
  const double extrapolated = plain(r.theta, j, d);
  return extrapolated * (1 - interpolate) + extrapolated / r.factor * interpolate;
}

RopeConfig yarn() {
  RopeConfig rope = usual();
  rope.scaling = RopeScaling::kYarn;
  rope.factor = 4;
  rope.original_context = 4096;
  return rope;
}

TEST(RopeTable, YarnBlendsByTurnsAndScalesByTheLogarithmOfItsFactor) {
  for (const bool truncate : {true, false}) {
    for (const int64_t d : {32, 64, 128}) {
      RopeConfig rope = yarn();
      rope.truncate = truncate;
      expect_table(
          rotary(d, rope), [&](int64_t j) { return yarn_frequency(j, rope, d); }, 0.1 * std::log(4.0) + 1);
    }
  }
}

TEST(RopeTable, YarnTakesOtherBounds) {
  RopeConfig rope = yarn();
  rope.beta_fast = 16, rope.beta_slow = 2, rope.theta = 1e6, rope.original_context = 1000;
  expect_table(
      rotary(64, rope), [&](int64_t j) { return yarn_frequency(j, rope, 64); }, 0.1 * std::log(4.0) + 1);
}

TEST(RopeTable, YarnsAttentionFactorIsGivenOrComesFromTheMscales) {
  RopeConfig rope = yarn();
  rope.attention_factor = 1.3;
  expect_table(
      rotary(64, rope), [&](int64_t j) { return yarn_frequency(j, rope, 64); }, 1.3);
  rope.attention_factor = 0;
  rope.mscale = 0.7, rope.mscale_all_dim = 1.2;
  const double factor = (0.1 * 0.7 * std::log(4.0) + 1) / (0.1 * 1.2 * std::log(4.0) + 1);
  expect_table(
      rotary(64, rope), [&](int64_t j) { return yarn_frequency(j, rope, 64); }, factor);
}

TEST(RopeTable, WithAFactorOfOneEveryScalingIsNone) {
  for (const RopeScaling scaling : {RopeScaling::kLinear, RopeScaling::kLlama3, RopeScaling::kYarn}) {
    RopeConfig rope = usual();
    rope.scaling = scaling;
    rope.original_context = 64;
    expect_table(
        rotary(32, rope), [](int64_t j) { return plain(10000.0, j, 32); }, 1.0);
  }
}

/// Layers with a window have a second table, without the scaling of the first.
TEST(RopeTable, HasASecondOneForLayersWithAWindow) {
  RopeConfig rope = usual();
  rope.scaling = RopeScaling::kLinear, rope.factor = 8;
  ModelConfig m = rotary(32, rope);
  std::vector<float> one(static_cast<size_t>(rope_table_size(m, 50)));
  fill_rope_table(one.data(), m, 50);
  m.rope.window_theta = 777;
  m.layers = 3, m.window = {4, 0, 4};
  ASSERT_EQ(rope_table_size(m, 50), 2 * 50 * 32);
  std::vector<float> both(static_cast<size_t>(rope_table_size(m, 50)));
  fill_rope_table(both.data(), m, 50);
  EXPECT_TRUE(std::equal(one.begin(), one.end(), both.begin()));
  RopeConfig local = usual();
  local.theta = 777;
  fill_rope_table(one.data(), rotary(32, local), 50);
  EXPECT_TRUE(std::equal(one.begin(), one.end(), both.begin() + 50 * 32));
  EXPECT_EQ(rope_table_begin(m, 0, 50), 50 * 32);
  EXPECT_EQ(rope_table_begin(m, 1, 50), 0);
}

TEST(RopeTable, IsEmptyWithoutRotaryPositions) {
  ModelConfig m = rotary(64, usual());
  for (const Position position : {Position::kLearned, Position::kNone}) {
    m.position = position;
    EXPECT_EQ(rope_table_size(m, 100), 0);
  }
}

/// A head of which a part rotates has the table of a head of that size.
TEST(RopeTable, DependsOnTheRotatedPartOfAHeadOnly) {
  ModelConfig part = rotary(64, usual());
  part.rope.dim = 16;
  ASSERT_EQ(rope_table_size(part, 100), 100 * 16);
  std::vector<float> of_part(100 * 16, -9.0f), of_head = of_part;
  fill_rope_table(of_part.data(), part, 100);
  fill_rope_table(of_head.data(), rotary(16, usual()), 100);
  EXPECT_EQ(of_part, of_head);
  part.rope.window_theta = 70, part.window = {5};
  EXPECT_EQ(rope_table_size(part, 100), 2 * 100 * 16);
  EXPECT_EQ(rope_table_begin(part, 0, 100), 100 * 16);
}

}  // namespace rope_table_test
}  // namespace hawser::nn
