// Token sampler tests: tokens are sampled with the shares that follow from temperature, top-k and top-p.
#include "engine/run/token_sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

namespace hawser {
namespace token_sampler_test {

using train::sample_token;

std::map<int32_t, double> shares(const std::vector<float>& logits, const train::SamplerConfig& config) {
  std::vector<std::pair<double, int32_t>> scratch;
  std::map<int32_t, double> counts;
  constexpr int kDraws = 20000;
  for (uint64_t i = 0; i < kDraws; ++i)
    counts[sample_token(logits.data(), static_cast<int64_t>(logits.size()), config, i, &scratch)] +=
        1.0 / kDraws;
  return counts;
}

TEST(TokenSampler, GreedyTakesTheFirstOfEquals) {
  std::vector<std::pair<double, int32_t>> scratch;
  const std::vector<float> logits{1, 3, 3, 0};
  EXPECT_EQ(sample_token(logits.data(), 4, {0, 0, 1, 9}, 0, &scratch), 1);
}

TEST(TokenSampler, FollowsTheDistribution) {
  const std::vector<float> logits{std::log(0.5f), std::log(0.3f), std::log(0.2f)};
  const auto share = shares(logits, {1, 0, 1, 3});
  EXPECT_NEAR(share.at(0), 0.5, 0.015);
  EXPECT_NEAR(share.at(2), 0.2, 0.015);
}

TEST(TokenSampler, TopKAndTopPCut) {
  const std::vector<float> logits{std::log(0.1f), std::log(0.4f), std::log(0.3f), std::log(0.2f)};
  EXPECT_EQ(shares(logits, {1, 2, 1, 3}).size(), 2u);
  const auto nucleus = shares(logits, {1, 0, 0.65, 3});  // 0.4 + 0.3 reach it
  EXPECT_EQ(nucleus.size(), 2u);
  EXPECT_NEAR(nucleus.at(1), 4.0 / 7.0, 0.015);
  EXPECT_EQ(shares(logits, {1, 0, 1e-9, 3}).size(), 1u);
}

}  // namespace token_sampler_test
}  // namespace hawser
