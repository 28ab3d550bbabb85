// Tests that the search finds what planning every layout finds, that its bounds are bounds, and what it says
// if nothing fits.
#include "engine/report/layout_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>

#include "engine/assembly/assemble.h"
#include "engine/base/error.h"
#include "engine/report/layout_bounds.h"
#include "engine/report/search_report.h"
#include "tests/cluster/planned_stages.h"

namespace hawser::testing {
namespace layout_search_test {

using Json = nlohmann::ordered_json;
using train::FoundLayout, train::SearchResult;

struct Case {
  Json config;
  cluster::Cluster cluster;
  int64_t ranks = 1;
};

/// A small model on up to four ranks, of which some layouts may not fit.
Case random_case(uint32_t seed) {
  std::mt19937 random(seed);
  const auto pick = [&](std::vector<int64_t> of) { return of[random() % of.size()]; };
  Case c;
  const int64_t layers = pick({1, 2});
  c.config = {
      {"model",
       {{"layers", layers}, {"heads", pick({2, 4})}, {"width", 32}, {"vocab_size", 64}, {"context", 16}}},
      {"batch", {{"global_batch", pick({2, 4})}, {"sequence", 16}}},
      {"train", {{"steps", 1}}}};
  c.ranks = pick({1, 2, 2, 4});
  if (random() % 4 != 0) c.config["recompute"] = {{"policy", "off"}};
  if (random() % 3 != 0) c.config["batch"]["micro_batch"] = 1;
  if (c.ranks == 4) c.config["pipeline"] = {{"schedule", "1f1b"}};
  if (random() % 4 == 0) c.config["mesh"]["tp"] = std::min<int64_t>(c.ranks, 2);
  c.cluster = plain_cluster(pick({1, 2, 4}));
  c.cluster.levels[0].latency = random() % 2 == 0 ? 0 : 1e-5;
  c.cluster.device.memory_bytes = 1e5 * static_cast<double>(pick({4, 8, 1000}));
  return c;
}

SearchResult search(const Case& c, bool prunes) {
  return train::search_layouts(config::ConfigTree::from_json(c.config.dump()), c.cluster,
                               {.ranks = c.ranks, .top = 3, .most = 100000, .prunes = prunes});
}

TEST(LayoutSearch, FindsWhatExhaustionFinds) {
  int found = 0;
  for (uint32_t seed = 0; seed < 100; ++seed) {
    const Case c = random_case(seed);
    SearchResult some, all;
    try {
      all = search(c, false);
    } catch (const Error& error) {
      EXPECT_TRUE(error.code() == Code::kOutOfMemory || error.code() == Code::kConfigInvalid)
          << error.message();
      EXPECT_THROW(search(c, true), Error) << seed;
      continue;
    }
    some = search(c, true);
    ++found;
    ASSERT_EQ(some.layouts.size(), all.layouts.size()) << seed;
    for (size_t i = 0; i < all.layouts.size(); ++i) {
      EXPECT_EQ(some.layouts[i].choice, all.layouts[i].choice) << seed << " layout " << i;
      EXPECT_EQ(some.layouts[i].seconds, all.layouts[i].seconds) << seed << " layout " << i;
    }
  }
  EXPECT_GT(found, 30);
}

TEST(LayoutSearch, BoundsAreBounds) {
  for (uint32_t seed = 0; seed < 10; ++seed) {
    const Case c = random_case(seed);
    const train::Assembly base = train::assemble(
        train::on_described_device(config::ConfigTree::from_json(c.config.dump()), c.cluster));
    if (c.ranks % base.config.mesh.tp != 0) continue;
    config::ResolvedConfig alone = base.config;
    alone.mesh = {};
    const nn::Model model = train::model_of(alone);
    const train::LayoutBounds bounds(model, base.config, c.cluster);
    const train::LayoutSpace space(base.tree, base.config, c.ranks);
    for (const train::LayoutChoice& choice : space.choices()) {
      const auto config = space.resolve(choice);
      if (!config) continue;
      const train::Forecast forecast(*config, c.cluster);
      EXPECT_LE(bounds.least_seconds(choice), forecast.step().seconds * (1 + 1e-9)) << seed;
      EXPECT_LE(bounds.least_bytes(choice, choice.zero_stage), static_cast<double>(forecast.most_bytes()))
          << seed;
    }
  }
}

/// Without time for transfers, layouts that only divide state differently take equally long.
TEST(LayoutSearch, TiesGoToTheSimplerLayout) {
  Case c = random_case(0);
  c.config["model"] = {{"layers", 2}, {"heads", 2}, {"width", 32}, {"vocab_size", 64}, {"context", 16}};
  c.config["batch"] = {{"global_batch", 4}, {"micro_batch", 1}, {"sequence", 16}};
  c.config.erase("mesh");
  c.ranks = 4, c.cluster = plain_cluster(4);
  c.cluster.levels[0].bytes_per_second = 1e300, c.cluster.device.bytes_per_second = 1e300;
  const SearchResult result = search(c, true);
  for (size_t i = 1; i < result.layouts.size(); ++i) {
    const FoundLayout &a = result.layouts[i - 1], &b = result.layouts[i];
    EXPECT_LE(a.seconds, b.seconds * (1 + 1e-9));
    if (std::abs(a.seconds - b.seconds) < 1e-12 * a.seconds) {
      EXPECT_LT(a.choice, b.choice);
    }
  }
  EXPECT_EQ(result.layouts.front().choice.zero_stage, 0);
}

TEST(LayoutSearch, FieldsMakeTheLayoutThatWasFound) {
  const Case c = random_case(3);
  const SearchResult result = search(c, true);
  for (const FoundLayout& found : result.layouts) {
    config::ConfigTree tree = config::ConfigTree::from_json(c.config.dump());
    for (const config::Setting& s : found.settings) tree.set(s.pointer, s.value);
    const config::ResolvedConfig config = config::resolve(tree);
    EXPECT_EQ(config.mesh.world(), c.ranks);
    EXPECT_EQ(config.batch.global_batch, c.config["batch"]["global_batch"].get<int64_t>());
    const train::Forecast forecast(config, c.cluster);
    EXPECT_EQ(forecast.step().seconds, found.seconds);
    EXPECT_EQ(forecast.most_bytes(), found.bytes);
  }
}

template <typename Call>
std::string refusal(Code code, Call call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.message();
    return error.message();
  }
  return "none";
}

TEST(LayoutSearch, SaysWhatCannotBe) {
  Case c = random_case(0);
  c.config["mesh"] = {{"tp", 2}};
  c.ranks = 3;
  EXPECT_NE(refusal(Code::kConfigInvalid, [&] { search(c, true); }).find("use 2 or 4 ranks"),
            std::string::npos);
  c.config.erase("mesh");
  c.config["model"]["layers"] = 1;
  c.config["batch"] = {{"global_batch", 8}, {"micro_batch", 3}, {"sequence", 16}};
  EXPECT_NE(refusal(Code::kConfigInvalid, [&] { search(c, true); }).find("/batch/global_batch"),
            std::string::npos);
  c = random_case(0);
  c.cluster.device.memory_bytes = 1000;
  EXPECT_NE(refusal(Code::kOutOfMemory, [&] { search(c, true); }).find("the least that one needs"),
            std::string::npos);
}

}  // namespace layout_search_test
}  // namespace hawser::testing
