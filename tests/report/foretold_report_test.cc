// Tests the report on a cluster that is not here: its figures follow from each other, its memory is that of
// the plans, and configs that cannot run there are refused.
#include "engine/report/foretold_report.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/base/error.h"
#include "engine/cluster/cluster.h"
#include "engine/cluster/kernel_seconds.h"
#include "tests/cluster/planned_stages.h"
#include "tests/harness/refusal.h"

namespace hawser::testing {
namespace foretold_report_test {

using Json = nlohmann::ordered_json;

Json config_json(const char* const extra = "{}") {
  Json json =
      Json::parse(R"({"model": {"layers": 8, "heads": 8, "width": 512, "vocab_size": 1000, "context": 256},
    "batch": {"micro_batch": 2, "grad_accum_steps": 4, "sequence": 256},
    "train": {"steps": 10}, "precision": "bf16",
    "mesh": {"pp": 2, "dp_shard": 4, "tp": 2}})");
  json.merge_patch(Json::parse(extra));
  return json;
}

train::PlanTexts texts(const Json& config, const std::string& cluster = "h100-80", double tokens = 0) {
  return train::foretold_plan(config::ConfigTree::from_json(config.dump()), cluster, tokens);
}
Json report(const Json& config, const std::string& cluster = "h100-80", double tokens = 0) {
  return Json::parse(texts(config, cluster, tokens).json);
}

TEST(ForetoldReport, FiguresFollowFromEachOther) {
  const Json json = report(config_json(), "h100-80", 1e9), foretold = json.at("foretold");
  const double seconds = foretold.at("seconds"), tokens = 2 * 4 * 256 * 4;
  EXPECT_GT(seconds, 0);
  EXPECT_DOUBLE_EQ(foretold.at("tokens_per_second"), tokens / seconds);
  const double flops = json.at("flops_per_token");
  EXPECT_NEAR(foretold.at("mfu").get<double>(), flops * tokens / seconds / (16 * 989e12), 1e-12);
  const Json& run = foretold.at("run");
  EXPECT_EQ(run.at("steps"), std::ceil(1e9 / tokens));
  EXPECT_NEAR(run.at("days").get<double>(), run.at("steps").get<double>() * seconds / 86400, 1e-9);
  EXPECT_NEAR(run.at("device_hours").get<double>(), run.at("days").get<double>() * 24 * 16, 1e-6);
  ASSERT_EQ(foretold.at("stages").size(), 2u);
  for (const Json& stage : foretold.at("stages")) {
    const Json& t = stage.at("seconds");
    double all =
        t.at("computing").get<double>() + t.at("copies").get<double>() + t.at("bubble").get<double>();
    for (const auto& [group, exposed] : t.at("exposed").items()) all += exposed.get<double>();
    EXPECT_NEAR(all, seconds, 1e-9 * seconds);
  }
  EXPECT_EQ(foretold.at("not_modelled").size(), 3u);
  EXPECT_FALSE(report(config_json()).at("foretold").contains("run"));
}

/// Without launches and ranks to wait for, a step takes as long as its kernels.
TEST(ForetoldReport, SecondsOfKernelsAddUpToThoseOfAStep) {
  Json cluster = Json::parse(cluster::cluster_json("h100-80"));
  cluster["device"]["launch_seconds"]["value"] = 1e-30;
  const Json json = report(config_json(R"({"mesh": {"pp": 1, "tp": 1, "dp_shard": 1}})"), cluster.dump());
  double all = 0;
  for (const Json& row : json.at("work")) all += row.at("seconds").get<double>();
  const double seconds = json.at("foretold").at("seconds");
  EXPECT_NEAR(all, seconds, 1e-9 * seconds);
  EXPECT_GT(all, 0);
}

TEST(ForetoldReport, SaysWhatBoundsEachKernel) {
  Json cluster = Json::parse(cluster::cluster_json("h100-80"));
  const auto bounds = [&](double bytes_per_second) {
    cluster["device"]["memory"]["bytes_per_second"]["value"] = bytes_per_second;
    cluster["device"]["memory"].erase("kernels");
    std::map<std::string, std::set<std::string>> bounds;
    const Json json = report(config_json(), cluster.dump());
    for (const Json& row : json.at("work")) bounds[row.at("kernel")].insert(row.at("bound_by"));
    return bounds;
  };
  const std::set<std::string> memory = {"memory"}, arithmetic = {"arithmetic"};
  auto slow = bounds(1e9), fast = bounds(1e18);
  EXPECT_EQ(slow["matmul"], memory);
  EXPECT_EQ(fast["matmul"], arithmetic);
  EXPECT_EQ(fast["attention_backward"], arithmetic);
  EXPECT_EQ(fast["norm_forward"], memory);
}

TEST(ForetoldReport, MemoryIsThatOfEachStage) {
  const Json json = report(config_json(R"({"mesh": {"pp": 4}, "batch": {"grad_accum_steps": 8}})"));
  const PlannedStages planned(config_json(R"({"mesh": {"pp": 4}, "batch": {"grad_accum_steps": 8}})").dump(),
                              device::Kind::kCuda);
  int64_t most = 0;
  std::set<int64_t> different;
  for (size_t s = 0; s < 4; ++s) {
    const Json& stage = json.at("foretold").at("stages")[s];
    const int64_t bytes = stage.at("device_bytes");
    EXPECT_EQ(stage.at("memory").at("activations"),
              planned.stages[s].train.at_peak[static_cast<size_t>(plan::Category::kActivations)]);
    EXPECT_NEAR(stage.at("free_bytes").get<double>(), 83e9 - static_cast<double>(bytes), 1);
    most = std::max(most, bytes), different.insert(bytes);
  }
  EXPECT_EQ(json.at("fits").at("needed_bytes"), most);
  EXPECT_EQ(json.at("fits").at("all_ranks"), true);
  EXPECT_GE(different.size(), 3u);  // earlier stages keep more micro-batches
}

TEST(ForetoldReport, TextSaysTheSame) {
  const train::PlanTexts both = texts(config_json(), "h100-80", 1e9);
  const Json foretold = Json::parse(both.json).at("foretold");
  for (const char* const words :
       {"16 ranks (pp 2 x dp_replicate 1 x dp_shard 4 x tp 2) of H100 SXM 80 GB", "a step ", "MFU ",
        "bubble ", "GPU-hours", "stage        bytes", "group        operation        hop",
        "not modelled: ", "memory: workspaces of cuDNN"})
    EXPECT_NE(both.text.find(words), std::string::npos) << words << "\n" << both.text;
  EXPECT_NE(both.text.find(fmt::format("a step     {:.4f} s", foretold.at("seconds").get<double>())),
            std::string::npos);
}

TEST(ForetoldReport, IsTheSameOnAnyNumberOfThreads) {
  const Json config = config_json(R"({"mesh": {"pp": 4}, "batch": {"grad_accum_steps": 8}})");
  const train::PlanTexts first = texts(config);
  for (const int threads : {1, 2, 3}) {
    Json again = config;
    again["cpu"]["threads"] = threads;
    EXPECT_EQ(texts(again).json, first.json);
    EXPECT_EQ(texts(again).text, first.text);
  }
}

/// Ranks that are farther apart take longer.
TEST(ForetoldReport, LeavingTheNodeCostsTime) {
  const auto seconds = [](const char* mesh) {
    return report(config_json(mesh)).at("foretold").at("seconds").get<double>();
  };
  EXPECT_LT(seconds(R"({"mesh": {"pp": 1, "tp": 8, "dp_shard": 1}})"),
            report(config_json(R"({"mesh": {"pp": 1, "tp": 8, "dp_shard": 1}})"),
                   [] {
                     Json slow = Json::parse(cluster::cluster_json("h100-80"));
                     slow["network"][0]["ranks"] = 4;
                     return slow.dump();
                   }())
                .at("foretold")
                .at("seconds")
                .get<double>());
}

TEST(ForetoldReport, RefusesWhatCannotRunThere) {
  EXPECT_NE(refusal(Code::kConfigInvalid, [] { texts(config_json(R"({"device": "cpu"})")); })
                .find("/device is \"cpu\", but the cluster \"H100 SXM 80 GB"),
            std::string::npos);
  Json small = Json::parse(cluster::cluster_json("h100-80"));
  small["ranks"] = 8;
  EXPECT_NE(refusal(Code::kConfigInvalid, [&] { texts(config_json(), small.dump()); })
                .find("/mesh asks for 16 ranks"),
            std::string::npos);
  EXPECT_NE(refusal(Code::kInvalidArgument, [] { texts(config_json(), "h100-80", -1); }).find("tokens is -1"),
            std::string::npos);
  refusal(Code::kNotFound, [] { texts(config_json(), "h100"); });
}

TEST(ForetoldReport, SaysWhatDoesNotFit) {
  Json tiny = Json::parse(cluster::cluster_json("h100-80"));
  tiny["device"]["memory_bytes"]["value"] = 1e6;
  const train::PlanTexts both = texts(config_json(), tiny.dump());
  EXPECT_EQ(Json::parse(both.json).at("fits").at("all_ranks"), false);
  EXPECT_NE(both.text.find("it does not fit: a rank needs "), std::string::npos);
}

}  // namespace foretold_report_test
}  // namespace hawser::testing
