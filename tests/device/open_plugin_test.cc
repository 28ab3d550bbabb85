// Tests that without a plugin, or with one of another build, the CPU works, and requests for a GPU report the
// reason. This test runs twice: without a plugin in its folder, and with a plugin of another build.
#include <gtest/gtest.h>

#include <atomic>
#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "engine/ranks/choose_device.h"
#include "engine/report/device_report.h"
#include "engine/report/plan_report.h"
#include "engine/run/trainer.h"

namespace hawser {
namespace open_plugin_test {

using nlohmann::json;

constexpr bool kOtherBuild = HAWSER_OTHER_BUILD;

config::ConfigTree config_of(const char* device) {
  return config::ConfigTree::from_json(std::string(R"({"preset": "gpt2-124m", "model": {"layers": 1},
      "batch": {"micro_batch": 1, "sequence": 8}, "cpu": {"threads": 1}, "device": ")") +
                                       device + "\"}");
}

/// Expects the error to name the path that was tried.
void expect_reason(const std::string& message) {
  EXPECT_NE(message.find("hawser-0/libhawser_cuda.so"), std::string::npos) << message;
  EXPECT_NE(message.find(kOtherBuild ? "\"0.0.0 some other compiler\"" : "No such file"), std::string::npos)
      << message;
}

TEST(OpenPlugin, RefusesCudaWithTheReason) {
  std::atomic<bool> cancel{false};
  for (const auto& call : {+[](std::atomic<bool>* c) { train::Trainer::create(config_of("cuda"), true, c); },
                           +[](std::atomic<bool>*) { train::plan_report(config_of("cuda"), true); }}) {
    try {
      call(&cancel);
      FAIL() << "there is no such device";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), kOtherBuild ? Code::kAbiMismatch : Code::kDeviceUnavailable);
      expect_reason(error.message());
    }
  }
}

TEST(OpenPlugin, LetsAutoTakeTheCpuAndExplainWhy) {
  std::atomic<bool> cancel{false};
  const config::ConfigTree config = config_of("auto");
  const auto trainer = train::Trainer::create(config, true, &cancel);
  const json info = json::parse(trainer->reports().info_json());
  EXPECT_EQ(info.at("device"), "cpu");
  expect_reason(info.at("device_reason"));

  const json field = json::parse(train::explain_with_device(config, "/device"));
  EXPECT_EQ(field.at("value"), "auto");
  const auto rule = field.at("rule").get<std::string>();
  EXPECT_EQ(rule.find("cpu, because "), 0u) << rule;
  expect_reason(rule);
  int found = 0;
  for (const json& f : json::parse(train::explain_with_device(config, "")))
    if (f.at("pointer") == "/device") found += f.at("rule") == rule ? 1 : 0;
  EXPECT_EQ(found, 1);
  EXPECT_TRUE(json::parse(train::explain_with_device(config_of("cpu"), "/device")).at("rule").is_null());
}

TEST(OpenPlugin, ListsTheCpuAndWhyThereIsNoMore) {
  const json devices = json::parse(train::device_list_json());
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_EQ(devices[0].at("kind"), "cpu");
  EXPECT_EQ(devices[1].at("kind"), "cuda");
  expect_reason(devices[1].at("unavailable"));
}

}  // namespace open_plugin_test
}  // namespace hawser
