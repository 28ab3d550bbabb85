// Tests that the search finds what planning every layout finds, that its bounds are bounds, and what it says
// if nothing fits.
#include "engine/report/layout_search.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>

#include "engine/assembly/assemble.h"
#include "engine/base/error.h"
#include "engine/report/chunks_in_flight.h"
#include "engine/report/layout_bounds.h"
#include "engine/report/layout_forecasts.h"
#include "engine/report/search_report.h"
#include "tests/cluster/planned_stages.h"
#include "tests/harness/refusal.h"

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

/// The same with experts, of which each rank may have a part.
Case random_mixture(uint32_t seed) {
  Case c = random_case(seed);
  c.config["model"]["bias"] = {{"gate", false}, {"up", false}, {"down", false}};
  c.config["model"]["moe"] = {{"experts", 4}, {"top_k", 1 + seed % 2}, {"width", 16}};
  return c;
}

/// Returns a random case with another optimizer, an adapter or frozen parameters, sometimes in bf16.
Case random_training(uint32_t seed) {
  Case c = random_case(seed);
  const char* const kinds[] = {"sgd", "lion", "adamw8", "muon", "adamw"};
  c.config["optimizer"] = {{"kind", kinds[seed % 5]}};
  if (seed % 2 == 1) c.config["precision"] = "bf16";
  if (seed % 4 == 1) c.config["optimizer"]["frozen"] = {"embedding.*"};
  if (seed % 4 == 2) c.config["adapter"] = {{"rank", 4}, {"targets", {"attention.q", "mlp.*"}}};
  return c;
}

SearchResult search(const Case& c, bool prunes) {
  return train::search_layouts(
      config::ConfigTree::from_json(c.config.dump()), c.cluster,
      {.ranks = c.ranks, .top = 3, .most = 100000, .prunes = prunes, .varies = false});
}

TEST(LayoutSearch, FindsWhatExhaustionFinds) {
  int found = 0;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    const Case c = seed % 5 == 4 ? random_mixture(seed) : random_case(seed);
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
  EXPECT_GT(found, 60);
}

std::vector<const train::LayoutChoice*> all_of(const train::LayoutSpace& space) {
  std::vector<const train::LayoutChoice*> all;
  for (const train::LayoutChoice& choice : space.choices()) all.push_back(&choice);
  return all;
}

/// Compares the bounds of all layouts of a case with their forecasts. Returns the mean of least seconds over
/// seconds.
double compare_bounds(const Case& c, const std::string& name) {
  const train::Assembly base =
      train::assemble(train::on_described_device(config::ConfigTree::from_json(c.config.dump()), c.cluster));
  if (c.ranks % base.config.mesh.tp != 0) return 1;
  config::ResolvedConfig alone = base.config;
  alone.mesh = {}, alone.pipeline = {};
  const nn::Model model = train::model_of(alone);
  const train::LayoutSpace space(base.tree, base.config, c.ranks);
  train::LayoutBounds bounds(model, base.config, c.cluster, space);
  bounds.measure(all_of(space));
  double shares = 0, layouts = 0;
  for (const train::LayoutChoice& choice : space.choices()) {
    const auto config = space.resolve(choice);
    if (!config) continue;
    const train::Forecast forecast(*config, c.cluster);
    const double least = bounds.least_seconds(choice), seconds = forecast.step().seconds;
    const std::string layout =
        fmt::format("{} pp {} schedule {} stage {} recompute {} micro-batch {}", name, choice.pp,
                    choice.schedule, choice.zero_stage, choice.recompute, choice.micro_batch);
    EXPECT_LE(least, seconds * (1 + 1e-9)) << layout;
    EXPECT_LE(bounds.least_bytes(choice, choice.zero_stage).all(), static_cast<double>(forecast.most_bytes()))
        << layout;
    shares += least / seconds, ++layouts;
  }
  return layouts > 0 ? shares / layouts : 1;
}

/// Few layouts fit into the memory of the devices, and these are unlikely to be fast.
TEST(LayoutSearch, FindsALayoutThatFitsWithFewForecasts) {
  int found = 0, cases = 0;
  for (uint32_t seed = 0; seed < 80; ++seed) {
    Case c = random_case(seed);
    c.cluster.device.memory_bytes = 1e12;
    const auto layouts = [&](int64_t most, bool prunes) {
      try {
        return train::search_layouts(
                   config::ConfigTree::from_json(c.config.dump()), c.cluster,
                   {.ranks = c.ranks, .top = 100000, .most = most, .prunes = prunes, .varies = false})
            .layouts;
      } catch (const Error&) {
        return std::vector<FoundLayout>();
      }
    };
    const std::vector<FoundLayout> all = layouts(100000, false);
    if (all.size() < 40) continue;
    int64_t least = all.front().bytes;
    for (const FoundLayout& layout : all) least = std::min(least, layout.bytes);
    c.cluster.device.memory_bytes = 1.1 * static_cast<double>(least);
    ++cases, found += !layouts(8, true).empty();
  }
  EXPECT_GT(cases, 10);
  EXPECT_GE(10 * found, 6 * cases) << found;
}

TEST(LayoutSearch, BoundsAreBounds) {
  for (uint32_t seed = 0; seed < 10; ++seed)
    EXPECT_GT(compare_bounds(random_case(seed), "case " + std::to_string(seed)), 0.1) << seed;
  for (uint32_t seed = 0; seed < 10; ++seed)
    EXPECT_GT(compare_bounds(random_mixture(seed), "mixture " + std::to_string(seed)), 0.1) << seed;
  for (uint32_t seed = 0; seed < 10; ++seed)
    EXPECT_GT(compare_bounds(random_training(seed), "training " + std::to_string(seed)), 0.1) << seed;
}

/// A layout whose blocks are not measured is tried after all others, so every layout of few ranks must be
/// measured, even if data-parallel ranks divide the experts.
TEST(LayoutSearch, BlocksOfAllLayoutsOfFewRanksAreMeasured) {
  int64_t divided = 0;
  for (uint32_t seed = 0; seed < 10; ++seed) {
    const Case c = random_mixture(seed);
    const train::Assembly base = train::assemble(
        train::on_described_device(config::ConfigTree::from_json(c.config.dump()), c.cluster));
    if (c.ranks % base.config.mesh.tp != 0) continue;
    config::ResolvedConfig alone = base.config;
    alone.mesh = {}, alone.pipeline = {};
    const nn::Model model = train::model_of(alone);
    const train::LayoutSpace space(base.tree, base.config, c.ranks);
    train::LayoutBounds bounds(model, base.config, c.cluster, space);
    bounds.measure(all_of(space));
    for (const train::LayoutChoice& choice : space.choices()) {
      if (!space.resolve(choice)) continue;
      EXPECT_TRUE(bounds.is_measured(choice))
          << seed << " pp " << choice.pp << " tp " << choice.tp << " cp " << choice.cp << " ep " << choice.ep;
      divided += choice.dp_of_experts() > 1 ? 1 : 0;
    }
  }
  EXPECT_GT(divided, 10);
}

/// A search plans layouts with equal plans once.
TEST(LayoutSearch, ForecastsAreThoseOfEachLayoutAlone) {
  int64_t forecasts = 0, narrower = 0;
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const Case c = random_case(seed);
    const train::Assembly base = train::assemble(
        train::on_described_device(config::ConfigTree::from_json(c.config.dump()), c.cluster));
    if (c.ranks % base.config.mesh.tp != 0) continue;
    const train::LayoutSpace space(base.tree, base.config, c.ranks);
    const std::vector<const train::LayoutChoice*> choices = all_of(space);
    const std::vector<train::Tried> tried = train::LayoutForecasts(space, c.cluster, 1).of(choices);
    for (size_t i = 0; i < choices.size(); ++i) {
      if (tried[i].outcome == train::Tried::Outcome::kRefused) continue;
      const train::Forecast alone(*space.resolve(*choices[i]), c.cluster);
      EXPECT_EQ(tried[i].layout.choice, *choices[i]);
      EXPECT_EQ(tried[i].layout.seconds, alone.step().seconds) << seed << " layout " << i;
      EXPECT_EQ(tried[i].layout.bytes, alone.most_bytes()) << seed << " layout " << i;
      ++forecasts, narrower += choices[i]->zero_stage == 2 ? 1 : 0;
    }
  }
  EXPECT_GT(forecasts, 100);
  EXPECT_GT(narrower, 20);
}

/// One rank keeps the complete state, so the bound is the state in its plan.
TEST(LayoutSearch, BoundsOfOneRankAreItsState) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    Case c = random_training(seed);
    c.config.erase("mesh");
    c.ranks = 1;
    const train::Assembly base = train::assemble(
        train::on_described_device(config::ConfigTree::from_json(c.config.dump()), c.cluster));
    const nn::Model model = train::model_of(base.config);
    const train::LayoutSpace space(base.tree, base.config, 1);
    const train::LayoutBounds bounds(model, base.config, c.cluster, space);
    const train::Forecast forecast(base.config, c.cluster);
    const plan::MemoryByCategory& planned = forecast.stages().front().train.at_peak;
    const auto bytes = [&](plan::Category of) {
      return static_cast<double>(planned[static_cast<size_t>(of)]);
    };
    const train::LeastBytes least = bounds.least_bytes(space.choices().front(), 0);
    EXPECT_EQ(least.optimizer, bytes(plan::Category::kOptimizer)) << c.config.dump();
    EXPECT_EQ(least.weights, bytes(plan::Category::kWeights)) << c.config.dump();
    EXPECT_LE(least.gradients, bytes(plan::Category::kGradients)) << c.config.dump();
    EXPECT_GT(least.gradients, 0.5 * bytes(plan::Category::kGradients)) << c.config.dump();
  }
}

/// Of pipelines whose messages take little time, most of a step is what the bounds count.
TEST(LayoutSearch, BoundsAreNearOfEverySchedule) {
  Case c = random_case(0);
  c.config["model"] = {{"layers", 8}, {"heads", 2}, {"width", 32}, {"vocab_size", 64}, {"context", 16}};
  c.config["batch"] = {{"global_batch", 12}, {"micro_batch", 1}, {"sequence", 16}};
  c.config["mesh"] = {{"pp", 4}};
  c.config.erase("recompute");
  c.config.erase("pipeline");
  c.ranks = 4, c.cluster = plain_cluster(4);
  c.cluster.levels[0].bytes_per_second = 1e15;
  EXPECT_GT(compare_bounds(c, "pipeline"), 0.8);
  c.config["mesh"] = {{"pp", 2}, {"dp_shard", 2}};
  EXPECT_GT(compare_bounds(c, "pipeline with shards"), 0.8);
}

/// Bounds look at as many micro-batches as fill the pipeline. No stage has more activations with all of them.
TEST(LayoutSearch, FewMicroBatchesFillAPipeline) {
  namespace pipeline = parallel::pipeline;
  for (const pipeline::ScheduleRow& row : pipeline::kSchedules)
    for (const int64_t chunks : {2, 5})
      for (const int64_t micro_batches : {65, 96, 127}) {
        const bool configured = row.chunks == pipeline::RankChunks::kConfigured;
        const pipeline::Shape shape{row.schedule, 8, micro_batches,
                                    configured                                 ? chunks
                                    : row.chunks == pipeline::RankChunks::kOne ? 1
                                                                               : 2,
                                    8};
        const std::vector<double> saved(static_cast<size_t>(shape.stages * shape.chunks), 1);
        for (int64_t stage = 0; stage < shape.stages; ++stage) {
          double now = 0, most = 0;
          for (const plan::Action& a : pipeline::actions(shape, stage)) {
            now += a.part == plan::Part::kForward ? 1 : a.part == plan::Part::kBackwardWeight ? 0 : -1;
            if (!a.overlaps_next) most = std::max(most, now);
          }
          EXPECT_EQ(train::most_in_flight(shape, stage, saved), most)
              << row.name << " stage " << stage << " micro-batches " << micro_batches;
        }
      }
}

TEST(LayoutSearch, TheBestDoNotDependOnTheOrderOfSearch) {
  std::vector<FoundLayout> layouts(4);
  for (size_t i = 0; i < layouts.size(); ++i) {
    layouts[i].choice.zero_stage = static_cast<int64_t>(i);
    layouts[i].seconds =
        i == 3 ? 1 : 2 * (1 + 1e-13 * static_cast<double>(3 - i));  // of three, only rounding
  }
  std::vector<size_t> order = {0, 1, 2, 3};
  do {
    std::vector<FoundLayout> best;
    for (const size_t i : order) train::add_to_best(&best, layouts[i], 3);
    ASSERT_EQ(best.size(), 3u);
    EXPECT_EQ(best[0].choice, layouts[3].choice);
    EXPECT_EQ(best[1].choice, layouts[0].choice);
    EXPECT_EQ(best[2].choice, layouts[1].choice);
  } while (std::next_permutation(order.begin(), order.end()));
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
  EXPECT_NE(refusal(Code::kOutOfMemory, [&] { search(c, true); }).find("the smallest needs"),
            std::string::npos);
}

}  // namespace layout_search_test
}  // namespace hawser::testing
