// Tests that cluster files are read strictly: every problem is named under its pointer, all in one error.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "engine/cluster/cluster.h"

namespace hawser::testing {
namespace cluster_file_test {

using Json = nlohmann::ordered_json;
using Pointer = Json::json_pointer;

Json shipped(const char* name = "h100-80") { return Json::parse(cluster::cluster_json(name)); }

/// The pointers of all problems, in order; empty if the text is valid.
std::vector<std::string> problems(const Json& json) {
  try {
    cluster::read_cluster(json.dump());
    return {};
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kInvalidArgument);
    std::vector<std::string> pointers;
    const Json details = Json::parse(error.details());
    for (const auto& p : details.at("problems")) {
      pointers.push_back(p.at("pointer"));
      EXPECT_NE(error.message().find(pointers.back() + ": "), std::string::npos) << error.message();
      EXPECT_FALSE(p.at("fix").get<std::string>().empty());
    }
    return pointers;
  }
}

std::vector<std::string> problems_with(const char* pointer, const Json& value) {
  Json json = shipped();
  json[Pointer(pointer)] = value;
  return problems(json);
}

using Pointers = std::vector<std::string>;

TEST(ClusterFile, ShippedOnesAreValid) {
  EXPECT_EQ(cluster::cluster_names(), (Pointers{"a100-80", "h100-80", "h200-141"}));
  for (const std::string& name : cluster::cluster_names()) {
    const cluster::Cluster c = cluster::cluster_of(name);
    EXPECT_EQ(c.device.kind, device::Kind::kCuda);
    ASSERT_EQ(c.levels.size(), 2u);
    EXPECT_EQ(c.levels[0].ranks, 8);
    EXPECT_GT(c.levels[0].bytes_per_second, 5 * c.levels[1].bytes_per_second);
    EXPECT_GT(c.device.memory_bytes, 80e9);
  }
  EXPECT_EQ(cluster::cluster_of("h100-80").device.peak(DType::kBf16), 989e12);
  EXPECT_EQ(cluster::cluster_of("a100-80").levels[1].bytes_per_second, 25e9);
  EXPECT_EQ(cluster::cluster_of("h200-141").device.bytes_per_second, 4.8e12);
}

TEST(ClusterFile, MayBeANameOrItsText) {
  EXPECT_EQ(cluster::cluster_of("  \n" + shipped().dump()).name, cluster::cluster_of("h100-80").name);
  try {
    cluster::cluster_of("h100-8");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kNotFound);
    EXPECT_EQ(error.message(), "there is no cluster \"h100-8\"; did you mean \"h100-80\"?");
  }
}

TEST(ClusterFile, NamesEveryProblemAtOnce) {
  Json json = shipped();
  json["device"].erase("launch_seconds");
  json["device"]["memory"]["bytes_per_second"]["value"] = -1;
  json["network"][0]["latencies"] = 3;
  json["device"]["peak_flops"]["bf16"].erase("source");
  json["device"]["matmul"]["efficiency"]["value"] = 1.5;
  EXPECT_EQ(problems(json), (Pointers{"/device/peak_flops/bf16/source", "/device/matmul/efficiency/value",
                                      "/device/memory/bytes_per_second/value", "/device/launch_seconds",
                                      "/network/0/latencies"}));
}

TEST(ClusterFile, RefusesRatesAboveThePeak) {
  EXPECT_EQ(problems_with("/device/attention/forward/0/flops_per_second", 990e12),
            (Pointers{"/device/attention/forward/0/flops_per_second"}));
  EXPECT_EQ(problems_with("/device/attention/forward/0/flops_per_second", 989e12), Pointers());
  EXPECT_EQ(problems_with("/device/memory/kernels/cross_entropy/value", 3.36e12),
            (Pointers{"/device/memory/kernels/cross_entropy/value"}));
  const Json point = {{"type", "bf16"},           {"m", 8},       {"n", 8}, {"k", 8},
                      {"flops_per_second", 1e15}, {"source", "x"}};
  EXPECT_EQ(problems_with("/device/matmul/points", Json::array({point})),
            (Pointers{"/device/matmul/points/0/flops_per_second"}));
}

TEST(ClusterFile, RefusesWhatItDoesNotKnow) {
  EXPECT_EQ(problems_with("/device/kind", "tpu"), (Pointers{"/device/kind"}));
  EXPECT_EQ(problems_with("/device/memory/kernels/cross_entropi", {{"value", 1}, {"source", "x"}}),
            (Pointers{"/device/memory/kernels/cross_entropi"}));
  EXPECT_EQ(problems_with("/network/1/efficiency/gather", {{"value", 1}, {"source", "x"}}),
            (Pointers{"/network/1/efficiency/gather"}));
  EXPECT_EQ(problems_with("/hosts", 1), (Pointers{"/hosts"}));
  EXPECT_EQ(problems_with("/device/attention/backward/0/type", "int8"),
            (Pointers{"/device/attention/backward/0/type"}));
}

TEST(ClusterFile, RefusesLevelsThatDoNotNest) {
  Json json = shipped();
  json["network"].insert(json["network"].begin() + 1, json["network"][0]);
  json["network"][1]["ranks"] = 12;
  EXPECT_EQ(problems(json), (Pointers{"/network/1/ranks"}));
  json["network"][1]["ranks"] = 16;
  EXPECT_EQ(problems(json), Pointers());
  json["network"][2]["ranks"] = 32;
  EXPECT_EQ(problems(json), (Pointers{"/network/2/ranks"}));
  EXPECT_EQ(problems_with("/network", Json::array()), (Pointers{"/network"}));
}

TEST(ClusterFile, RefusesValuesOfAnotherType) {
  EXPECT_EQ(problems_with("/device/launch_seconds", 1e-6), (Pointers{"/device/launch_seconds"}));
  EXPECT_EQ(problems_with("/device/launch_seconds/value", "fast"),
            (Pointers{"/device/launch_seconds/value"}));
  EXPECT_EQ(problems_with("/device", Json::array()), (Pointers{"/device"}));
  EXPECT_EQ(problems_with("/network/0", 3).front(), "/network/0");
  EXPECT_EQ(problems_with("/device/attention/forward/0/length", 0.5),
            (Pointers{"/device/attention/forward/0/length"}));
  EXPECT_EQ(problems_with("/name", ""), (Pointers{"/name"}));
  for (const char* const text : {"{", "[]", "{\"name\": 1e999}"})
    EXPECT_THROW(cluster::cluster_of(text), Error) << text;
}

}  // namespace cluster_file_test
}  // namespace hawser::testing
