// Tests asynchronous saves: they write the same bytes as synchronous ones and do not affect training. Also
// tests every call that can be made while a save runs or after one has failed.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "engine/base/error.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/reader.h"
#include "engine/report/plan_report.h"
#include "tests/harness/file_faults.h"
#include "tests/harness/small_config.h"

namespace hawser {
namespace async_save_test {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::FaultyDisk;
using testing::HeldDisk;
using train::SaveOperation;
using train::TensorKind;
using train::Trainer;

std::map<std::string, std::string> files_of(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    std::stringstream text;
    text << std::ifstream(entry.path(), std::ios::binary).rdbuf();
    files[fs::relative(entry.path(), folder)] = text.str();
  }
  return files;
}

template <typename Call>
Error error_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return Error(Code::kOk, "");
}

class AsyncSave : public ::testing::Test {
 protected:
  std::unique_ptr<Trainer> make(const std::string& more = "", int32_t ranks = 1) {
    return Trainer::create(testing::small_config(tokens_, "bf16", 2, more), false, &cancel_,
                           ranks > 1 ? comm::make_local(ranks) : nullptr);
  }
  std::string path(const std::string& name) const { return folder_.file(name); }

  testing::ScratchFolder folder_;
  const std::string tokens_ = testing::write_tokens(folder_, 20000);
  std::atomic<bool> cancel_{false};
};

TEST_F(AsyncSave, GivesTheSameBytesWhileTrainingGoesOn) {
  struct {
    const char* sections;
    int32_t ranks;
  } const layouts[] = {{"", 1},
                       {R"(, "mesh": {"dp_shard": 3}, "zero": {"stage": 3})", 3},
                       {R"(, "mesh": {"dp_shard": 2, "dp_replicate": 2}, "zero": {"stage": 1})", 4}};
  for (const auto& layout : layouts) {
    const std::string name = std::to_string(layout.ranks);
    const auto trainer = make(layout.sections, layout.ranks), alone = make(layout.sections, layout.ranks);
    for (int i = 0; i < 2; ++i) trainer->train_step(), alone->train_step();
    trainer->saves().save(path("sync-" + name));
    const auto operation = [&] {
      const HeldDisk held;  // so that the steps below run during the save
      const auto begun = trainer->saves().save_async(path("async-" + name));
      for (int i = 0; i < 3; ++i) trainer->train_step();
      EXPECT_FALSE(begun->ended());
      return begun;
    }();
    EXPECT_TRUE(operation->wait(-1));
    EXPECT_EQ(files_of(path("async-" + name)), files_of(path("sync-" + name))) << layout.sections;
    EXPECT_EQ(operation->bytes_written(), operation->total_bytes());
    for (int i = 0; i < 3; ++i) alone->train_step();
    for (const TensorKind kind : {TensorKind::kWeight, TensorKind::kMoment1, TensorKind::kMoment2})
      EXPECT_EQ(testing::tensor(*trainer, kind, "blocks.1.mlp.down.weight", 40 * 72),
                testing::tensor(*alone, kind, "blocks.1.mlp.down.weight", 40 * 72))
          << layout.sections;
  }
}

/// Returns the nice value of each thread of this process.
std::vector<int> nice_values() {
  std::vector<int> values;
  for (const auto& task : fs::directory_iterator("/proc/self/task"))
    values.push_back(getpriority(PRIO_PROCESS, static_cast<id_t>(std::stoi(task.path().filename()))));
  return values;
}

TEST_F(AsyncSave, IsWrittenAtLowerPriorityThanTraining) {
  const auto trainer = make();
  const int mine = getpriority(PRIO_PROCESS, 0);
  const auto others = [&] {
    const std::vector<int> values = nice_values();
    return std::count_if(values.begin(), values.end(), [&](int value) { return value != mine; });
  };
  EXPECT_EQ(others(), 0);
  const HeldDisk held;
  const auto operation = trainer->saves().save_async(path("beside"));
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (others() == 0 && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  EXPECT_EQ(others(), 1);
  const std::vector<int> values = nice_values();
  EXPECT_EQ(*std::max_element(values.begin(), values.end()), std::min(mine + 7, 19));
}

TEST_F(AsyncSave, StagesWhatThePlanSays) {
  for (const std::string more :
       {"", R"(, "optimizer": {"kind": "sgd", "momentum": 0, "frozen": ["embedding.*"]})"}) {
    config::ConfigTree config = testing::small_config(tokens_);
    if (!more.empty()) {
      config.set("/optimizer", R"({"kind": "sgd", "learning_rate": 0.01, "momentum": 0})");
    }
    const auto trainer = Trainer::create(config, false, &cancel_);
    const int64_t planned =
        json::parse(train::plan_report(config, true)).at("save_copy_bytes").get<int64_t>();
    EXPECT_GT(planned, 0);
    const auto operation = trainer->saves().save_async(path("staged" + std::to_string(planned)));
    EXPECT_EQ(operation->total_bytes(), planned);
    EXPECT_TRUE(operation->wait(-1));
    EXPECT_EQ(json::parse(trainer->reports().info_json()).at("memory").at("save_copy_bytes").get<int64_t>(),
              planned);
  }
}

/// The run saves asynchronously, so its memory includes the copy that it writes from.
TEST_F(AsyncSave, TheHostHoldsWhatThePlanSaysInAll) {
  const std::string sections =
      R"(, "checkpoint": {"path": ")" + path("run") +
      R"(", "every": 1, "async": true}, "mesh": {"dp_shard": 2}, "zero": {"stage": 1})";
  const json plan =
      json::parse(train::plan_report(testing::small_config(tokens_, "bf16", 2, sections), true));
  const auto trainer = make(sections, 2);
  const auto memory = [&] { return json::parse(trainer->reports().info_json()).at("memory"); };
  EXPECT_EQ(memory().at("copies_taken_bytes"), plan.at("save_copy_bytes"));  // before any save
  trainer->loop().run(3, nullptr);
  const json after = memory();
  EXPECT_EQ(after.at("high_water_bytes"), after.at("planned_bytes"));
  EXPECT_EQ(after.at("copies_taken_bytes"), plan.at("save_copy_bytes"));
  EXPECT_EQ(plan.at("host_bytes").get<int64_t>(),
            after.at("arena_bytes").get<int64_t>() + after.at("copies_taken_bytes").get<int64_t>());
}

TEST_F(AsyncSave, AnotherSaveWaitsOrIsRefused) {
  const auto refuses = make(R"(, "checkpoint": {"when_busy": "refuse"})");
  std::shared_ptr<SaveOperation> first;
  {
    const HeldDisk held;
    first = refuses->saves().save_async(path("a"));
    EXPECT_FALSE(first->wait(0.01));
    EXPECT_EQ(error_of([&] { refuses->saves().save(path("b")); }).code(), Code::kBusy);
    const Error busy = error_of([&] { refuses->saves().save_async(path("b")); });
    EXPECT_EQ(busy.code(), Code::kBusy);
    EXPECT_NE(busy.message().find(path("a")), std::string::npos) << busy.message();
  }
  EXPECT_TRUE(first->wait(-1));
  refuses->saves().save(path("b"));

  const auto waits = make();
  std::shared_ptr<SaveOperation> second;
  {
    auto held = std::make_unique<HeldDisk>();
    first = waits->saves().save_async(path("c"));
    std::jthread release([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      held.reset();
    });
    second = waits->saves().save_async(path("d"));
    EXPECT_TRUE(first->ended());
    release.join();
  }
  EXPECT_TRUE(second->wait(-1));
  for (const char* name : {"a", "b", "c", "d"}) checkpoint::Reader::open(path(name))->verify();
}

TEST_F(AsyncSave, CancelLeavesNothing) {
  const auto trainer = make();
  std::shared_ptr<SaveOperation> operation;
  {
    const HeldDisk held;
    operation = trainer->saves().save_async(path("out/cancelled"));
    operation->cancel();
  }
  EXPECT_EQ(error_of([&] { operation->wait(-1); }).code(), Code::kCancelled);
  EXPECT_TRUE(fs::is_empty(path("out")));
  EXPECT_EQ(json::parse(trainer->metrics().json()).at("save_failures").get<int>(), 0);
  trainer->saves().save(path("out/cancelled"));
  operation->cancel();  // no effect, because this save has ended
}

TEST_F(AsyncSave, LoadExportAndTheEndOfTheEngineWaitForIt) {
  config::ConfigTree config = testing::small_config(tokens_);
  for (const auto& [field, value] : {std::pair("window", "0"), {"window_layers", "[]"}}) {
    config.set(std::string("/model/") + field, value);
  }
  auto trainer = Trainer::create(config, false, &cancel_);
  const auto during = [&](const std::string& name, const auto& call) {
    auto held = std::make_unique<HeldDisk>();
    const auto operation = trainer->saves().save_async(path(name));
    std::jthread release([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      held.reset();
    });
    call();
    EXPECT_TRUE(operation->ended()) << name;
    release.join();
    checkpoint::Reader::open(path(name))->verify();
  };
  during("load", [&] { trainer->loads().load(path("load"), false); });
  during("export", [&] { trainer->exports().model_to(path("hugging-face"), ""); });
  during("destroy", [&] { trainer.reset(); });
}

TEST_F(AsyncSave, AFailureIsToldByTheOperationOrElseByTheNextCall) {
  const auto trainer = make(R"(, "checkpoint": {"on_error": "stop"})");
  const auto fail_one = [&](const std::string& name) {
    const FaultyDisk full(testing::Fault::kDiskFull);
    auto operation = trainer->saves().save_async(path(name));
    operation->wait_until_ended();
    return operation;
  };
  const auto heard = fail_one("out/a");
  const Error error = error_of([&] { heard->wait(0); });
  EXPECT_EQ(error.code(), Code::kIo);
  EXPECT_NE(error.message().find("No space left"), std::string::npos) << error.message();
  EXPECT_EQ(trainer->train_step().step, 1);  // wait() has reported the error

  fail_one("out/b");
  const Error next = error_of([&] { trainer->train_step(); });
  EXPECT_EQ(next.code(), Code::kIo);
  EXPECT_NE(next.message().find(path("out/b")), std::string::npos) << next.message();
  EXPECT_EQ(trainer->train_step().step, 2);  // the error is reported once
  fail_one("out/c");
  EXPECT_EQ(error_of([&] { trainer->saves().save(path("out/d")); }).code(), Code::kIo);
  trainer->saves().save(path("out/d"));
  fail_one("out/e");
  EXPECT_EQ(error_of([&] { trainer->loop().run(3, nullptr); }).code(), Code::kIo);
  EXPECT_EQ(json::parse(trainer->metrics().json()).at("save_failures").get<int>(), 4);
  EXPECT_EQ(std::distance(fs::directory_iterator(path("out")), {}), 1);

  const auto goes_on = make();  // on_error is go_on by default
  {
    const FaultyDisk full(testing::Fault::kDiskFull);
    goes_on->saves().save_async(path("out/f"))->wait_until_ended();
  }
  EXPECT_EQ(goes_on->train_step().step, 1);
  const json metrics = json::parse(goes_on->metrics().json());
  EXPECT_EQ(metrics.at("save_failures").get<int>(), 1);
  EXPECT_NE(metrics.at("save_error").get<std::string>().find("out/f"), std::string::npos);
}

TEST_F(AsyncSave, WhatIsThereAlreadyIsRefusedAtOnce) {
  const auto trainer = make();
  trainer->saves().save(path("there"));
  EXPECT_EQ(error_of([&] { trainer->saves().save_async(path("there")); }).code(), Code::kAlreadyExists);
}

}  // namespace async_save_test
}  // namespace hawser
