// Tests that the last step of a run is on disk however it ends normally, and that saving by time changes
// nothing else.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "engine/base/error.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/comm/comm.h"
#include "engine/save/save_clock.h"
#include "tests/harness/equal_tensors.h"
#include "tests/harness/small_config.h"

namespace hawser {
namespace durable_run_test {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::ScratchFolder;
using testing::small_config;
using testing::write_tokens;
using train::SaveClock;
using train::Trainer;
using train::TrainRecord;

TEST(SaveClock, TakesAHundredthOfARunAtMost) {
  for (const double cost : {0.001, 1.0, 20.0, 500.0}) {
    SaveClock clock(300, 0);
    double time = 0, saving = 0, longest_wait = 0;
    for (int step = 0; step < 200000; ++step) {
      time += 2.5;
      if (!clock.due(time)) continue;
      EXPECT_LE(saving, 0.01 * time) << "before the save at " << time;
      clock.saved(time, time + cost);
      longest_wait = std::max(longest_wait, std::max(300.0, 100 * cost));
      time += cost, saving += cost;
    }
    EXPECT_GT(saving, 0) << cost;
    EXPECT_LE(saving, 0.01 * time + cost);
    EXPECT_LE(longest_wait, std::max(300.0, 100 * cost));
  }
  EXPECT_FALSE(SaveClock(0, 0).due(1e9));
}

/// Returns the steps of all step-N in a folder.
std::set<int64_t> steps_in(const std::string& folder) {
  std::set<int64_t> steps;
  if (!fs::exists(folder)) return steps;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("step-")) steps.insert(std::stoll(name.substr(5)));
  }
  return steps;
}

class DurableRun : public ::testing::TestWithParam<std::tuple<int, bool>> {
 protected:
  int ranks() const { return std::get<0>(GetParam()); }

  config::ConfigTree config(const char* checkpoint = "{}") const {
    config::ConfigTree config = small_config(tokens_);
    config.set("/mesh/dp_shard", std::to_string(ranks()));
    json section = json::parse(checkpoint);
    section["path"] = path_;
    section["async"] = std::get<1>(GetParam());
    config.set("/checkpoint", section.dump());
    return config;
  }
  std::unique_ptr<Trainer> make(const config::ConfigTree& config) {
    return Trainer::create(config, false, &cancel_, ranks() > 1 ? comm::make_local(ranks()) : nullptr);
  }

  ScratchFolder folder_;
  const std::string tokens_ = write_tokens(folder_, 20000);
  const std::string path_ = folder_.file("run");
  std::atomic<bool> cancel_{false};
};

TEST_P(DurableRun, AnErrorInTheDataLeavesTheLastStepOnDisk) {
  const std::string copy = folder_.file("whole.bin");
  fs::copy_file(tokens_, copy);
  int64_t steps = 0;
  const auto broken = make(config());
  try {
    broken->loop().run(20, [&](const TrainRecord& record) {
      steps = record.result.step;
      if (steps == 4) fs::resize_file(tokens_, 64);
      return true;
    });
    FAIL() << "the data were cut short, and nothing was said";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kDataInvalid) << error.message();
  }
  ASSERT_GE(steps, 4);
  EXPECT_EQ(steps_in(path_), std::set<int64_t>{steps});

  fs::copy_file(copy, tokens_, fs::copy_options::overwrite_existing);
  const auto resumed = make(config());
  resumed->loads().load(path_ + "/step-" + std::to_string(steps), false);
  resumed->loop().run(8, nullptr);
  fs::remove_all(path_);
  const auto whole = make(config());
  whole->loop().run(8, nullptr);
  testing::expect_equal_tensors(*resumed, *whole);
}

/// The step is complete when its validation fails, so it is reported and saved.
TEST_P(DurableRun, AnErrorInTheValidationDataLeavesTheStepOnDisk) {
  config::ConfigTree validating = config();
  validating.set("/train/eval_every", "2");
  const auto trainer = make(validating);
  int64_t steps = 0;
  try {
    trainer->loop().run(20, [&](const TrainRecord& record) {
      steps = record.result.step;
      if (steps == 3) fs::resize_file(tokens_, fs::file_size(tokens_) - 100);  // cuts the validation data
      return true;
    });
    FAIL() << "the data were cut short, and nothing was said";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kDataInvalid) << error.message();
  }
  EXPECT_EQ(steps, 4);
  EXPECT_TRUE(steps_in(path_).contains(4));
  EXPECT_NO_THROW(trainer->train_step()) << "the ranks are still in touch";
}

TEST_P(DurableRun, AnErrorBeforeTheFirstStepLeavesNothing) {
  const auto trainer = make(config());
  fs::resize_file(tokens_, 64);
  EXPECT_THROW(trainer->loop().run(20, nullptr), Error);
  EXPECT_EQ(steps_in(path_), std::set<int64_t>());
}

TEST_P(DurableRun, SavesByTimeAndKeepsEveryNumber) {
  const auto timed = make(config(R"({"every_seconds": 1e-9, "keep_last": 1000})"));
  std::set<int64_t> told;
  timed->loop().run(60, [&](const TrainRecord& record) {
    if (record.saved) told.insert(record.result.step);
    return true;
  });
  EXPECT_TRUE(told.contains(2)) << "the first interval is over at once";
  EXPECT_TRUE(told.contains(60));
  EXPECT_EQ(steps_in(path_), told);
  EXPECT_LT(told.size(), 60u) << "what a save takes is waited for a hundred times";
  fs::remove_all(path_);
  const auto plain = make(config(R"({"every_seconds": 0})"));
  plain->loop().run(60, nullptr);
  EXPECT_EQ(steps_in(path_), std::set<int64_t>{60});
  testing::expect_equal_tensors(*timed, *plain);
}

INSTANTIATE_TEST_SUITE_P(Ranks, DurableRun,
                         ::testing::Values(std::tuple(1, false), std::tuple(1, true), std::tuple(2, false)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param) == 1 ? "One" : "Two") +
                                  (std::get<1>(info.param) ? "Async" : "");
                         });

}  // namespace durable_run_test
}  // namespace hawser
