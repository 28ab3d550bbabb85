// Sampling test: the two pure functions of sample numbers: the permutation of an epoch and the mixture of
// sources.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <set>

#include "engine/base/philox.h"
#include "engine/data/mixture.h"
#include "engine/data/permutation.h"
#include "tests/data/data_files.h"

namespace hawser::data {
namespace sampling_test {

TEST(Permutation, IsABijectionForEverySize) {
  for (uint64_t count = 1; count < 300; ++count) {
    std::vector<bool> seen(count, false);
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t value = permute(i, count, count * 77);
      ASSERT_LT(value, count);
      ASSERT_FALSE(seen[value]);
      seen[value] = true;
    }
  }
}

TEST(Permutation, DependsOnTheKeyOnly) {
  int same = 0;
  for (uint64_t i = 0; i < 1000; ++i) {
    EXPECT_EQ(permute(i, 1000, 5), permute(i, 1000, 5));
    same += permute(i, 1000, 5) == permute(i, 1000, 6) ? 1 : 0;
  }
  EXPECT_LT(same, 10);  // two random orders share 1 position on average
}

TEST(Permutation, HoldsHugeCounts) {
  const uint64_t count = (uint64_t{1} << 62) + 12345;
  std::set<uint64_t> seen;
  for (uint64_t i = 0; i < 100; ++i) {
    const uint64_t value = permute(count - 1 - i, count, 1);
    EXPECT_LT(value, count);
    EXPECT_TRUE(seen.insert(value).second);
  }
}

TEST(Permutation, EveryOrderOfFourIsAboutAsLikely) {
  int counts[256] = {};
  constexpr int kTrials = 24000;
  for (uint64_t key = 0; key < kTrials; ++key) {
    uint64_t code = 0;
    for (uint64_t i = 0; i < 4; ++i) code = code * 4 + permute(i, 4, philox_derive(1, key, 0));
    ++counts[code];
  }
  double chi = 0;
  int orders = 0;
  for (const int n : counts) {
    if (n == 0) continue;
    ++orders;
    chi += (n - kTrials / 24.0) * (n - kTrials / 24.0) / (kTrials / 24.0);
  }
  EXPECT_EQ(orders, 24);
  EXPECT_LT(chi, 60);  // 23 degrees of freedom: 50 is exceeded once in a thousand times
}

TEST(Permutation, PlacesAndValuesAreUncorrelated) {
  constexpr uint64_t kCount = 4096;
  double sum = 0;
  for (uint64_t i = 0; i < kCount; ++i) {
    sum +=
        (static_cast<double>(i) / kCount - 0.5) * (static_cast<double>(permute(i, kCount, 3)) / kCount - 0.5);
  }
  EXPECT_LT(std::abs(sum / kCount * 12), 4 / std::sqrt(static_cast<double>(kCount)));
}

/// Counts each source in samples [0, n) and checks that each source's samples come in order without gaps.
std::vector<uint64_t> drive(const Mixture& mixture, const std::vector<double>& weights, uint64_t n,
                            double slack) {
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<uint64_t> given(weights.size(), 0);
  for (uint64_t i = 0; i < n; ++i) {
    const Mixture::Pick pick = mixture.pick(i);
    EXPECT_EQ(pick.sample, given[static_cast<size_t>(pick.source)]++);
    for (size_t s = 0; s < weights.size(); ++s) {
      const double exact = static_cast<double>(i + 1) * weights[s] / total;
      EXPECT_LE(std::abs(static_cast<double>(given[s]) - exact), slack)
          << "source " << s << " at sample " << i;
    }
    if (::testing::Test::HasFailure()) break;
  }
  return given;
}

TEST(Mixture, SharesAreExactUpToRoundingAtEverySample) {
  drive(Mixture({1}), {1}, 100, 0);
  drive(Mixture({1, 1}), {1, 1}, 1000, 0.5 + 1e-9);
  drive(Mixture({3, 1}), {3, 1}, 1000, 0.5 + 1e-9);
  drive(Mixture({0.7, 0.3}), {0.7, 0.3}, 5000, 0.5 + 1e-9);
  drive(Mixture({5, 1, 2}), {5, 1, 2}, 5000, 1.0 + 1e-9);
  drive(Mixture({1, 1, 1, 1, 1, 1, 1}), {1, 1, 1, 1, 1, 1, 1}, 5000, 1.5 + 1e-9);
  drive(Mixture({0.001, 0.999}), {0.001, 0.999}, 5000, 0.5 + 1e-9);
}

TEST(Mixture, ManyRandomWeights) {
  std::vector<double> weights;
  for (uint64_t i = 0; i < 37; ++i) {
    weights.push_back(0.01 + static_cast<double>(philox_uniform(philox(9, i, 0).v[0])));
  }
  drive(Mixture(weights), weights, 3000, 3.0);  // the tree has a depth of 6
}

TEST(Mixture, DoesNotDriftFarOut) {
  const Mixture mixture({0.7, 0.3});
  const uint64_t n = 1000000000000;
  const Mixture::Pick pick = mixture.pick(n);
  const double share = pick.source == 0 ? 0.7 : 0.3;
  EXPECT_NEAR(static_cast<double>(pick.sample), static_cast<double>(n) * share, 1);
  mixture.pick(~uint64_t{0});
}

TEST(Mixture, OnlyRatiosCount) {
  const Mixture a({1, 2, 5}), b({1e300, 2e300, 5e300}), c({1e-300, 2e-300, 5e-300});
  for (uint64_t n = 0; n < 1000; ++n) {
    EXPECT_EQ(a.pick(n).source, b.pick(n).source);
    EXPECT_EQ(a.pick(n).sample, c.pick(n).sample);
  }
}

TEST(Mixture, RefusesWeightsThatAreNone) {
  for (const double bad : {0.0, -1.0, static_cast<double>(INFINITY), static_cast<double>(NAN)}) {
    expect_error(Code::kInvalidArgument, {"weight of source 1"}, [&] { Mixture({1, bad}); });
  }
}

}  // namespace sampling_test
}  // namespace hawser::data
