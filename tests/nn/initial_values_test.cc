// Tests initial weights: they are a pure function of (seed, name, element), normal, and the same for every
// thread count.
#include "engine/nn/initial_values.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "engine/base/philox.h"
#include "engine/nn/normal_values.h"
#include "tests/harness/test_stream.h"

namespace hawser::nn {
namespace initial_values_test {

using testing::SerialStream;
using testing::TaskOrder;
using testing::ThreadStream;

Parameter matrix(const std::string& name, int64_t size, double factor = 1.0) {
  Parameter p;
  p.name = name;
  p.shape = {size, 1};
  p.size = size;
  p.initial = {InitialValue::Kind::kNormal, factor};
  return p;
}

std::vector<float> filled(const Parameter& p, double std, uint64_t seed, Stream& stream) {
  std::vector<float> weights(static_cast<size_t>(p.size) + 1, 77.0f);
  fill_initial(weights.data(), p, 0, p.size, std, seed, stream);
  EXPECT_EQ(weights.back(), 77.0f) << "wrote behind its end";
  weights.pop_back();
  return weights;
}

std::vector<float> filled(const Parameter& p, double std, uint64_t seed) {
  SerialStream stream;
  return filled(p, std, seed, stream);
}

TEST(InitialValues, AreTheSameBitsForEveryThreadCountAndOrder) {
  for (const int64_t size : {1, 3, 16383, 16384, 100001}) {
    const Parameter p = matrix("blocks.0.mlp.up.weight", size);
    const std::vector<float> expected = filled(p, 0.02, 1);
    SerialStream shuffled(3, TaskOrder::kShuffled);
    ThreadStream threads(2);
    EXPECT_EQ(filled(p, 0.02, 1, shuffled), expected) << size;
    EXPECT_EQ(filled(p, 0.02, 1, threads), expected) << size;
  }
}

TEST(InitialValues, AnElementDoesNotDependOnTheSizeOfItsTensor) {
  const std::vector<float> small = filled(matrix("w", 1001), 0.02, 1),
                           large = filled(matrix("w", 50000), 0.02, 1);
  EXPECT_TRUE(std::equal(small.begin(), small.end(), large.begin()));
}

TEST(InitialValues, ARangeOfThemIsThatRangeOfTheWhole) {
  // A rank fills its own range: any range must be bit-identical to that part of the full parameter, and
  // nothing outside it may be written.
  constexpr int64_t kSize = 70001;
  constexpr uint32_t kSeed = 41;
  std::mt19937 random(kSeed);
  Parameter constant = matrix("final_norm.weight", kSize);
  constant.initial = {InitialValue::Kind::kConstant, 0.75};
  for (const Parameter& p : {matrix("blocks.0.mlp.up.weight", kSize, 0.5), constant}) {
    const std::vector<float> whole = filled(p, 0.02, 7);
    for (int i = 0; i < 200; ++i) {
      // Ranges are short with any alignment, long, empty, or reach the last element.
      const int64_t most = i % 2 == 0 ? 9 : kSize;
      int64_t begin = static_cast<int64_t>(random()) % kSize,
              end = begin + static_cast<int64_t>(random()) % most;
      if (i % 5 == 0) begin = 0;
      end = i % 7 == 0 ? kSize : std::min(end, kSize);
      SerialStream stream(3, TaskOrder::kShuffled);
      std::vector<float> part(static_cast<size_t>(end - begin) + 2, 77.0f);
      fill_initial(part.data() + 1, p, begin, end, 0.02, 7, stream);
      ASSERT_TRUE(std::equal(part.begin() + 1, part.end() - 1, whole.begin() + begin))
          << p.name << " [" << begin << ", " << end << "), seed " << kSeed;
      ASSERT_TRUE(part.front() == 77.0f && part.back() == 77.0f)
          << p.name << " [" << begin << ", " << end << ") wrote outside, seed " << kSeed;
    }
  }
}

TEST(InitialValues, FollowTheFormulaOfBoxAndMuller) {
  constexpr double kTwoPi = 6.283185307179586;
  std::vector<float> values(4 * kNormalBlocks);
  double worst = 0;
  for (uint64_t block = 0; block < 4096; block += kNormalBlocks) {
    normal_values(values.data(), 77, block, 1.0f);
    for (size_t i = 0; i < values.size(); i += 2) {
      const PhiloxBlock words = philox(77, block + i / 4, 0);
      const double u = 1.0 - std::ldexp(words.v[i % 4] >> 8, -24),
                   x = std::ldexp(words.v[i % 4 + 1] >> 8, -24);
      const double radius = std::sqrt(-2 * std::log(u));
      worst = std::max(worst, std::abs(values[i] - radius * std::cos(kTwoPi * x)));
      worst = std::max(worst, std::abs(values[i + 1] - radius * std::sin(kTwoPi * x)));
    }
  }
  EXPECT_LT(worst, 1e-6);
}

TEST(InitialValues, AreNormalWithTheAskedDeviation) {
  constexpr int64_t kSize = 1 << 20;
  for (const auto& [std, factor] : {std::pair{0.02, 1.0}, std::pair{0.5, 0.25}}) {
    const std::vector<float> weights = filled(matrix("embedding.tokens.weight", kSize, factor), std, 5);
    const double n = static_cast<double>(kSize), sigma = std * factor;
    double mean = 0, square = 0, fourth = 0;
    int64_t inside = 0;
    for (const float w : weights) {
      const double z = static_cast<double>(w) / sigma;
      mean += z / n, square += z * z / n, fourth += z * z * z * z / n;
      inside += std::abs(z) < 1 ? 1 : 0;
    }
    EXPECT_NEAR(mean, 0.0, 5 / std::sqrt(n));
    EXPECT_NEAR(square, 1.0, 5 * std::sqrt(2 / n));
    EXPECT_NEAR(fourth, 3.0, 5 * std::sqrt(96 / n));
    EXPECT_NEAR(static_cast<double>(inside) / n, 0.682689, 5 * 0.4654 / std::sqrt(n));
  }
}

double correlation(const std::vector<float>& a, const std::vector<float>& b) {
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double x = static_cast<double>(a[i]), y = static_cast<double>(b[i]);
    ab += x * y, aa += x * x, bb += y * y;
  }
  return ab / std::sqrt(aa * bb);
}

TEST(InitialValues, AreIndependentBetweenNamesSeedsAndNeighbours) {
  constexpr int64_t kSize = 100000;
  const double bound = 5 / std::sqrt(static_cast<double>(kSize));
  const std::vector<float> w = filled(matrix("blocks.0.mlp.up.weight", kSize), 0.02, 1);
  EXPECT_LT(std::abs(correlation(w, filled(matrix("blocks.1.mlp.up.weight", kSize), 0.02, 1))), bound);
  EXPECT_LT(std::abs(correlation(w, filled(matrix("blocks.0.mlp.up.weight", kSize), 0.02, 2))), bound);
  for (const int64_t shift : {1, 2, 3, 4, 768}) {
    std::vector<float> moved = w;
    std::rotate(moved.begin(), moved.begin() + shift, moved.end());
    EXPECT_LT(std::abs(correlation(w, moved)), bound) << shift;
  }
}

TEST(InitialValues, AConstantIsThatConstantAndADeviationOfZeroIsZero) {
  Parameter p = matrix("final_norm.weight", 100);
  p.initial = {InitialValue::Kind::kConstant, 0.75};
  for (const float w : filled(p, 0.02, 1)) EXPECT_EQ(w, 0.75f);
  for (const float w : filled(matrix("w", 100), 0.0, 1)) EXPECT_EQ(w, 0.0f);
}

}  // namespace initial_values_test
}  // namespace hawser::nn
