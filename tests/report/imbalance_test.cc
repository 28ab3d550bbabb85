// Tests forecasts with unbalanced experts: rows, bytes and rounds of the busiest rank against a computation
// by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "engine/plan/step_work.h"
#include "engine/report/forecast.h"
#include "engine/report/foretold_report.h"
#include "engine/report/layout_search.h"
#include "tests/cluster/planned_stages.h"
#include "tests/harness/refusal.h"

namespace hawser::testing {
namespace imbalance_test {

using Json = nlohmann::ordered_json;
using train::Forecast;

constexpr int64_t kLayers = 2, kWidth = 32, kFeatures = 16, kRows = 32, kExperts = 4;

/// Two ranks divide four experts. Each rank has two micro-batches of 32 tokens, and each token has one
/// expert.
Json mixture() {
  return {{"model",
           {{"layers", kLayers},
            {"heads", 2},
            {"width", kWidth},
            {"vocab_size", 64},
            {"context", 16},
            {"bias", {{"gate", false}, {"up", false}, {"down", false}}},
            {"moe", {{"experts", kExperts}, {"top_k", 1}, {"width", kFeatures}}}}},
          {"batch", {{"global_batch", 8}, {"micro_batch", 2}, {"sequence", 16}}},
          {"mesh", {{"dp_shard", 2}, {"ep", 2}}},
          {"train", {{"steps", 1}}}};
}

config::ResolvedConfig resolved(const Json& config) {
  return train::assemble(
             train::on_described_device(config::ConfigTree::from_json(config.dump()), plain_cluster()))
      .config;
}

double grouped_flops(const Forecast& forecast) {
  double flops = 0;
  for (const KernelCalls& calls : plan::step_work(forecast.stages().front().train))
    if (std::string_view(calls.kernel) == "grouped_matmul") flops += calls.flops;
  return flops;
}

/// Bytes of rows that a rank exchanges with the rank that has the other experts.
int64_t exchanged(const Forecast& forecast) {
  int64_t bytes = 0;
  for (const cluster::SentRow& row : forecast.sent())
    if (row.group == parallel::TransferGroup::kEp && row.operation == comm::Operation::kAllToAll)
      for (const int64_t b : row.bytes) bytes += b;
  return bytes;
}

/// `rows`: rows that each rank sends to the busiest. `again`: those of them that it sends in later rounds.
int64_t bytes_by_hand(int64_t rows, int64_t again) {
  const int64_t row = 4 * kWidth;  // of activations, in fp32
  return kLayers * 2 * (rows * ((row + 4) + row + (2 * row + 4)) + again * (row + 4));
}

/// Returns the FLOPs of up and down, in forward and twice in backward, and of up again for the rows of later
/// rounds.
double flops_by_hand(int64_t rows, int64_t again) {
  const double product = 2.0 * kWidth * kFeatures;
  return static_cast<double>(kLayers * 2 * 2) * product * static_cast<double>(6 * rows + again);
}

TEST(Imbalance, TheBusiestRankGetsAsManyRowsAsByHand) {
  const auto config = resolved(mixture());
  for (const auto& [imbalance, rows] :
       {std::pair<double, int64_t>{1, 16}, {1.25, 20}, {1.5, 24}, {2, 32}, {9, 32}}) {
    const cluster::Cluster on = plain_cluster();
    const Forecast forecast(config, on, imbalance);
    EXPECT_EQ(exchanged(forecast), bytes_by_hand(rows, 0)) << imbalance;
    EXPECT_EQ(grouped_flops(forecast), flops_by_hand(rows, 0)) << imbalance;
  }
}

TEST(Imbalance, RoundsFollow) {
  Json config = mixture();
  config["moe"] = {{"rows_factor", 1}};  // a round has 16 rows
  const auto made = resolved(config);
  const cluster::Cluster on = plain_cluster();
  for (const auto& [imbalance, rows] : {std::pair<double, int64_t>{1, 16}, {1.5, 24}, {2, 32}}) {
    const Forecast forecast(made, on, imbalance);
    EXPECT_EQ(exchanged(forecast), bytes_by_hand(rows, rows - 16)) << imbalance;
    EXPECT_EQ(grouped_flops(forecast), flops_by_hand(rows, rows - 16)) << imbalance;
  }
}

TEST(Imbalance, NeverMakesAStepFasterNorNeedsMoreMemory) {
  for (const char* const schedule : {"", "1f1b", "zb_h1", "zbv"})
    for (const int64_t factor : {1, 2}) {
      Json config = mixture();
      config["moe"] = {{"rows_factor", factor}};
      if (*schedule != 0) {
        config["mesh"]["pp"] = 2, config["pipeline"] = {{"schedule", schedule}};
        config["model"]["layers"] = 4, config["batch"]["global_batch"] = 16;
      }
      const auto made = resolved(config);
      const cluster::Cluster on = plain_cluster(4);
      const Forecast balanced(made, on);
      double before = balanced.step().seconds;
      for (const double imbalance : {1.0, 1.1, 1.3, 1.7, 2.0, 3.0}) {
        const Forecast forecast(made, on, imbalance);
        EXPECT_GE(forecast.step().seconds, before) << schedule << " " << imbalance;
        EXPECT_EQ(forecast.most_bytes(), balanced.most_bytes()) << schedule << " " << imbalance;
        before = forecast.step().seconds;
      }
      EXPECT_GT(before, balanced.step().seconds) << schedule;
    }
}

TEST(Imbalance, OfOtherAxesIsNone) {
  Json config = mixture();
  config["mesh"] = {{"dp_replicate", 1}, {"ep", 1}};
  const auto made = resolved(config);
  const cluster::Cluster on = plain_cluster();
  EXPECT_EQ(Forecast(made, on, 2).step().seconds, Forecast(made, on).step().seconds);
}

TEST(Imbalance, SearchPredictsWithIt) {
  Json config = mixture();
  config.erase("mesh");
  const auto tree = config::ConfigTree::from_json(config.dump());
  const cluster::Cluster on = plain_cluster();
  const auto best = [&](double imbalance) {
    return train::search_layouts(tree, on, {.ranks = 2, .top = 1000, .imbalance = imbalance, .most = 100000});
  };
  const train::SearchResult found = best(1.5);
  ASSERT_FALSE(found.layouts.empty());
  bool divides = false;
  for (const train::FoundLayout& layout : found.layouts) {
    config::ConfigTree of = tree;
    for (const config::Setting& s : layout.settings) of.set(s.pointer, s.value);
    divides |= layout.choice.ep > 1;
    EXPECT_EQ(Forecast(config::resolve(of), on, 1.5).step().seconds, layout.seconds);
  }
  EXPECT_TRUE(divides);
}

TEST(Imbalance, IsReportedAndRefused) {
  const auto tree = config::ConfigTree::from_json(mixture().dump());
  EXPECT_NE(train::foretold_plan(tree, "h100-80", 0, 1.3).text.find("get 1.3 times the mean"),
            std::string::npos);
  EXPECT_EQ(Json::parse(train::foretold_plan(tree, "h100-80", 0, 1.3).json)["foretold"]["imbalance"], 1.3);
  EXPECT_FALSE(Json::parse(train::foretold_plan(tree, "h100-80", 0).json)["foretold"].contains("imbalance"));
  for (const double wrong : {0.99, -1.0, std::nan(""), HUGE_VAL})
    EXPECT_NE(refusal(Code::kInvalidArgument, [&] { train::foretold_plan(tree, "h100-80", 0, wrong); })
                  .find("it must be 1 (balanced) or more"),
              std::string::npos);
  Json dense = mixture();
  dense["model"].erase("moe"), dense["mesh"].erase("ep");
  const auto of_dense = config::ConfigTree::from_json(dense.dump());
  EXPECT_NE(refusal(Code::kInvalidArgument, [&] { train::foretold_plan(of_dense, "h100-80", 0, 1.3); })
                .find("the model has no experts"),
            std::string::npos);
}

}  // namespace imbalance_test
}  // namespace hawser::testing
