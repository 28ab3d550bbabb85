// Balance test: compares the division of layers among chunks with all other divisions.
#include "engine/parallel/pipeline/balance.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace hawser::testing {
namespace balance_test {

using parallel::pipeline::balance;

double slowest(const std::vector<double>& layers, double embedding, double head,
               const std::vector<int64_t>& counts) {
  double worst = 0;
  size_t at = 0;
  for (size_t c = 0; c < counts.size(); ++c) {
    double cost = (c == 0 ? embedding : 0) + (c + 1 == counts.size() ? head : 0);
    for (int64_t i = 0; i < counts[c]; ++i) cost += layers[at++];
    worst = std::max(worst, cost);
  }
  return worst;
}

/// Returns the least cost over all divisions.
double least(const std::vector<double>& layers, double embedding, double head, int64_t chunks,
             std::vector<int64_t> counts = {}) {
  const int64_t taken = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  const int64_t left = std::ssize(layers) - taken;
  if (chunks == 1) {
    counts.push_back(left);
    return slowest(layers, embedding, head, counts);
  }
  double best = 1e300;
  for (int64_t n = 1; n <= left - (chunks - 1); ++n) {
    counts.push_back(n);
    best = std::min(best, least(layers, embedding, head, chunks - 1, counts));
    counts.pop_back();
  }
  return best;
}

TEST(Balance, IsTheBestOfAll) {
  std::mt19937 random(5);
  for (int i = 0; i < 300; ++i) {
    std::vector<double> layers(1 + random() % 9);
    for (double& cost : layers) cost = static_cast<double>(random() % 20);
    const auto embedding = static_cast<double>(random() % 30), head = static_cast<double>(random() % 60);
    const auto chunks = static_cast<int64_t>(1 + random() % layers.size());
    const std::vector<int64_t> counts = balance(layers, embedding, head, chunks);
    ASSERT_EQ(std::ssize(counts), chunks);
    EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), int64_t{0}), std::ssize(layers));
    EXPECT_GE(*std::min_element(counts.begin(), counts.end()), 1);
    EXPECT_NEAR(slowest(layers, embedding, head, counts), least(layers, embedding, head, chunks), 1e-9);
  }
}

TEST(Balance, GivesEqualLayersEqually) {
  const std::vector<double> ten(10, 1.0);
  EXPECT_EQ(balance(ten, 0, 0, 2), (std::vector<int64_t>{5, 5}));
  EXPECT_EQ(balance(ten, 0, 0, 3), (std::vector<int64_t>{3, 4, 3}));
  EXPECT_EQ(balance(ten, 0, 3, 2), (std::vector<int64_t>{7, 3}));  // the head costs as much as three layers
  EXPECT_EQ(balance(std::vector<double>(12, 1.0), 0, 5.4, 4),
            (std::vector<int64_t>{4, 4, 3, 1}));  // as in GPT-2
  EXPECT_EQ(balance(ten, 0, 100, 10), (std::vector<int64_t>(10, 1)));
}

TEST(Balance, TakesLargeModels) {
  const std::vector<int64_t> counts = balance(std::vector<double>(10000, 2.5), 1, 7, 512);
  EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), int64_t{0}), 10000);
  EXPECT_LE(*std::max_element(counts.begin(), counts.end()), 20);
}

}  // namespace balance_test
}  // namespace hawser::testing
