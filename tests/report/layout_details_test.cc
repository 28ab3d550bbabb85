// Tests the fields that a search varies around its best layouts: the layout that it finds is at most 4 %
// slower than the fastest of all combinations, fields that the config sets stay, offload makes layouts fit,
// and reasons state what was predicted.
#include "engine/report/layout_details.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "engine/assembly/assemble.h"
#include "engine/base/error.h"
#include "engine/report/layout_search.h"
#include "engine/report/search_report.h"
#include "tests/cluster/planned_stages.h"
#include "tests/harness/refusal.h"

namespace hawser::testing {
namespace layout_details_test {

using Json = nlohmann::ordered_json;
using train::LayoutChoice, train::SearchResult;

struct Case {
  Json config;
  cluster::Cluster cluster;
};

/// A small model on two ranks. Transfers take much of its time, and many layouts do not fit.
Case random_case(uint32_t seed) {
  std::mt19937 random(seed);
  const auto pick = [&](std::vector<int64_t> of) { return of[random() % of.size()]; };
  Case c;
  c.config = {{"model",
               {{"layers", 3},
                {"heads", 2},
                {"width", 32},
                {"vocab_size", pick({64, 512})},
                {"context", 16},
                {"tied_head", false}}},
              {"batch", {{"global_batch", 4}, {"micro_batch", 1}, {"sequence", 16}}},
              {"mesh", {{"tp", 1}, {"cp", 1}}},
              {"train", {{"steps", 1}}}};
  if (random() % 2 == 0) c.config["mesh"]["pp"] = pick({1, 2});
  if (random() % 2 == 0) c.config["recompute"] = {{"policy", random() % 2 == 0 ? "off" : "selective"}};
  // Otherwise there are too many combinations to plan all.
  c.config["offload"] = {{"parameters", "off"}, {"gradients", "off"}, {"activations", "off"}};
  c.config["zero"] = {{"prefetch", 1}};
  c.cluster = plain_cluster(2);
  if (random() % 2 == 0) c.cluster.device.kind = device::Kind::kCuda;
  c.cluster.levels[0].bytes_per_second = 1e7 * static_cast<double>(pick({1, 10, 100}));
  c.cluster.levels[0].latency = random() % 2 == 0 ? 0 : 1e-5;
  c.cluster.device.memory_bytes = 1e5 * static_cast<double>(pick({5, 6, 7, 8, 10, 1000}));
  return c;
}

SearchResult search(const Case& c, bool varies = true) {
  return train::search_layouts(config::ConfigTree::from_json(c.config.dump()), c.cluster,
                               {.ranks = 2, .top = 3, .most = 100000, .varies = varies});
}

/// Returns all divisions of `layers` into `chunks` chunks.
std::vector<std::vector<int64_t>> divisions(int64_t layers, int64_t chunks) {
  if (chunks == 1) return {{layers}};
  std::vector<std::vector<int64_t>> all;
  for (int64_t first = 1; first <= layers - chunks + 1; ++first)
    for (std::vector<int64_t> rest : divisions(layers - first, chunks - 1)) {
      rest.insert(rest.begin(), first);
      all.push_back(std::move(rest));
    }
  return all;
}

/// Returns the seconds of the fastest of all combinations; 0 if none fits.
double fastest_of_all(const Case& c) {
  const train::Assembly base =
      train::assemble(train::on_described_device(config::ConfigTree::from_json(c.config.dump()), c.cluster));
  const train::LayoutSpace space(base.tree, base.config, 2);
  const train::LayoutDetails details(base.config, c.cluster, space);
  double best = 0;
  const auto attempt = [&](const LayoutChoice& choice) {
    const auto config = space.resolve(choice);
    if (!config) return;
    try {
      const train::Forecast forecast(*config, c.cluster);
      if (forecast.fits() && (best == 0 || forecast.step().seconds < best)) best = forecast.step().seconds;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kConfigInvalid) << error.message();
    }
  };
  for (const LayoutChoice& choice : space.choices())
    for (LayoutChoice varied : details.product(choice)) {
      attempt(varied);
      if (varied.pp == 1) continue;
      const std::vector<config::Setting> without = varied.details;
      for (const std::vector<int64_t>& layers : divisions(3, varied.pp * varied.chunks)) {
        varied.details = without;
        varied.details.push_back({"/pipeline/layers", Json(layers).dump()});
        attempt(varied);
      }
    }
  return best;
}

TEST(LayoutDetails, TheSearchIsNearlyAsFastAsAllCombinations) {
  constexpr double kMostLost = 1.04;  // the search changes one field at a time, around its best layouts only
  int found = 0, gains = 0, exact = 0, missed = 0;
  for (uint32_t seed = 0; seed < 10; ++seed) {
    const Case c = random_case(seed);
    const double best = fastest_of_all(c);
    SearchResult result, plain;
    try {
      result = search(c);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kOutOfMemory) << error.message();
      missed += best > 0;
      continue;
    }
    ++found;
    EXPECT_GE(result.layouts.front().seconds, best * (1 - 1e-9)) << seed << " " << c.config.dump();
    EXPECT_LE(result.layouts.front().seconds, best * kMostLost) << seed << " " << c.config.dump();
    exact += result.layouts.front().seconds <= best * (1 + 1e-9);
    try {
      plain = search(c, false);
      gains += plain.layouts.front().seconds > best * (1 + 1e-9);
    } catch (const Error&) {
      ++gains;
    }
  }
  EXPECT_GT(found, 4);
  EXPECT_GT(gains, 1);
  EXPECT_GE(3 * exact, found);
  EXPECT_LE(missed, 1);  // a layout may fit only with several changes at once
}

TEST(LayoutDetails, FieldsThatAreSetStay) {
  Case c = random_case(0);
  c.cluster.device.kind = device::Kind::kCuda;
  c.config["mesh"] = {{"dp_shard", 2}};
  c.config["zero"] = {{"stage", 3}, {"prefetch", 1}};
  c.config["recompute"] = {{"policy", "selective"}, {"arrays", {"qkv"}}};
  for (const double memory : {4e5, 1e9}) {
    c.cluster.device.memory_bytes = memory;
    SearchResult result;
    try {
      result = search(c);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kOutOfMemory) << error.message();
      continue;
    }
    for (const train::FoundLayout& layout : result.layouts)
      for (const config::Setting& s : layout.settings)
        for (const char* const set :
             {"/zero/prefetch", "/recompute/policy", "/recompute/arrays", "/zero/stage"})
          EXPECT_NE(s.pointer, set);
  }
}

/// A layout of one rank whose optimizer's state is larger than the device.
TEST(LayoutDetails, OffloadMakesLayoutsFit) {
  Case c = random_case(0);
  c.config["model"]["vocab_size"] = 4096, c.config["mesh"] = {{"dp_replicate", 2}};
  c.config["recompute"] = {{"policy", "off"}};
  c.cluster.device.kind = device::Kind::kCuda;
  c.cluster.device.memory_bytes = 1e12;
  const int64_t all = search(c).layouts.front().bytes;
  c.cluster.device.memory_bytes = 0.9 * static_cast<double>(all);
  EXPECT_THROW(search(c, false), Error);
  const SearchResult result = search(c);
  ASSERT_FALSE(result.layouts.empty());
  const auto& settings = result.layouts.front().settings;
  EXPECT_TRUE(std::any_of(settings.begin(), settings.end(), [](const config::Setting& s) {
    return s.pointer == "/offload/optimizer" && s.value == "\"host\"";
  }));
  EXPECT_LE(result.layouts.front().bytes, static_cast<int64_t>(c.cluster.device.memory_bytes));
  c.cluster.host = {};  // the cluster states no rates of a host
  EXPECT_NE(refusal(Code::kOutOfMemory, [&] { search(c); }).find("the smallest needs"), std::string::npos);
}

TEST(LayoutDetails, ReasonsAreWhatWasPredicted) {
  Case c = random_case(1);
  c.config["mesh"] = {{"cp", 1}};
  c.config.erase("recompute");
  c.cluster.device.memory_bytes = 1e12;
  const auto tree = config::ConfigTree::from_json(c.config.dump());
  const SearchResult result = train::search_layouts(
      tree, c.cluster, {.ranks = 2, .top = 1000, .most = 100000, .prunes = false, .varies = false});
  ASSERT_FALSE(result.reasons.empty());
  for (const train::FieldReason& reason : result.reasons) {
    const auto value_of = [&](const LayoutChoice& choice) {
      if (reason.field == "/mesh/tp") return choice.tp;
      if (reason.field == "/mesh/pp") return choice.pp;
      if (reason.field == "/zero/stage") return choice.zero_stage;
      return int64_t{-1};
    };
    if (value_of(result.layouts.front().choice) < 0) continue;
    EXPECT_EQ(reason.value, std::to_string(value_of(result.layouts.front().choice)));
    for (const train::OtherValue& other : reason.others) {
      double least = 0;
      for (const train::FoundLayout& layout : result.layouts)
        if (std::to_string(value_of(layout.choice)) == other.value)
          least = least == 0 ? layout.seconds : std::min(least, layout.seconds);
      EXPECT_EQ(other.seconds, least) << reason.field << " " << other.value;
    }
  }
}

TEST(LayoutDetails, ReasonsNameTheFieldAndWhatItsValuesCost) {
  const std::string text =
      train::searched_plan(
          config::ConfigTree::from_json(
              R"({"model": {"layers": 2, "heads": 16, "width": 256, "vocab_size": 512, "context": 64},
                                   "batch": {"global_batch": 64, "sequence": 64}, "mesh": {"pp": 1, "cp": 1},
                                   "train": {"steps": 1}})"),
          "h100-80", 16, 1)
          .text;
  EXPECT_NE(text.find("\nwhy: the fastest layout with another value"), std::string::npos) << text;
  EXPECT_NE(text.find("  /mesh/tp "), std::string::npos) << text;
}

}  // namespace layout_details_test
}  // namespace hawser::testing
