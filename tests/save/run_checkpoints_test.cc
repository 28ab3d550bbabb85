// Tests what a run does if its own checkpoints cannot be written, because of a full disk or a read-only
// folder, temporarily or permanently, with synchronous and asynchronous saves.
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <thread>

#include "engine/base/error.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/reader.h"
#include "tests/harness/file_faults.h"
#include "tests/harness/small_config.h"

namespace hawser {
namespace run_checkpoints_test {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::Fault;
using testing::FaultyDisk;
using train::Trainer;
using train::TrainRecord;

std::set<std::string> names_in(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename());
  return names;
}

struct Case {
  Fault fault;
  bool async;
  const char* words;
};

class RunCheckpoints : public ::testing::TestWithParam<Case> {
 protected:
  std::unique_ptr<Trainer> make(const std::string& on_error, int64_t keep_last = 10, int64_t every = 2,
                                int64_t eval_every = 2) {
    config::ConfigTree config = testing::small_config(tokens_);
    config.set("/data/validation_fraction", "0.1");
    config.set("/train", json({{"steps", 8}, {"eval_every", eval_every}, {"eval_batches", 1}}).dump());
    config.set("/checkpoint", json({{"path", path_},
                                    {"every", every},
                                    {"keep_last", keep_last},
                                    {"async", GetParam().async},
                                    {"on_error", on_error}})
                                  .dump());
    return Trainer::create(config, false, &cancel_);
  }
  /// Waits until an asynchronous save has ended, so that a case has the same steps with and without such
  /// saves.
  static void settle(const Trainer& trainer) {
    while (json::parse(trainer.metrics().json()).at("saving").get<bool>())
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  void verify(const std::string& name) const { checkpoint::Reader::open(path_ + "/" + name)->verify(); }

  testing::ScratchFolder folder_;
  const std::string tokens_ = testing::write_tokens(folder_, 20000);
  const std::string path_ = folder_.file("run");
  std::atomic<bool> cancel_{false};
};

TEST_P(RunCheckpoints, AFaultThatPassesCostsOnlyTheCheckpointsOfItsTime) {
  const auto trainer = make("go_on");
  std::optional<FaultyDisk> fault;
  std::vector<int64_t> counted;
  std::string told;
  trainer->loop().run(0, [&](const TrainRecord& record) {
    settle(*trainer);
    counted.push_back(record.save_failures);
    if (record.result.step == 3) fault.emplace(GetParam().fault);
    if (record.result.step == 5) {
      fault.reset();
      told = json::parse(trainer->metrics().json()).at("save_error").get<std::string>();
      EXPECT_EQ(names_in(path_), (std::set<std::string>{"LATEST", "best", "step-2"}));
    }
    return true;
  });
  EXPECT_EQ(counted.size(), 8u);
  EXPECT_EQ(counted[3], 0);
  EXPECT_EQ(counted[7], 1);
  EXPECT_NE(told.find("step-4"), std::string::npos) << told;
  EXPECT_NE(told.find(GetParam().words), std::string::npos) << told;
  EXPECT_EQ(names_in(path_), (std::set<std::string>{"LATEST", "best", "step-2", "step-6", "step-8"}));
  for (const char* name : {"best", "step-2", "step-6", "step-8"}) verify(name);
}

TEST_P(RunCheckpoints, AFaultThatStaysEndsTheRunWithItsErrorAtTheEnd) {
  const auto trainer = make("go_on");
  std::optional<FaultyDisk> fault;
  int64_t steps = 0;
  try {
    trainer->loop().run(0, [&](const TrainRecord& record) {
      settle(*trainer);
      steps = record.result.step;
      if (steps == 3) fault.emplace(GetParam().fault);
      return true;
    });
    FAIL() << "the last checkpoint is not there, and nothing was said";
  } catch (const Error& error) {
    EXPECT_NE(error.message().find(GetParam().words), std::string::npos) << error.message();
  }
  EXPECT_EQ(steps, 8);
  EXPECT_EQ(names_in(path_), (std::set<std::string>{"LATEST", "best", "step-2"}));
  verify("step-2");
  verify("best");
  fault.reset();
  trainer->saves().save(path_ + "/step-8");  // the engine works as before
}

TEST_P(RunCheckpoints, OnErrorStopEndsTheRunThere) {
  const auto trainer = make("stop");
  std::optional<FaultyDisk> fault;
  int64_t steps = 0;
  EXPECT_THROW(trainer->loop().run(0,
                                   [&](const TrainRecord& record) {
                                     settle(*trainer);
                                     steps = record.result.step;
                                     if (steps == 3) fault.emplace(GetParam().fault);
                                     return true;
                                   }),
               Error);
  fault.reset();
  EXPECT_GE(steps, 4);
  EXPECT_LE(steps,
            GetParam().async ? 5 : 4);  // a step may begin before an asynchronous save reports its failure
  EXPECT_EQ(names_in(path_), (std::set<std::string>{"LATEST", "best", "step-2"}));
}

TEST_P(RunCheckpoints, ARunSweepsWhatAKilledSaveLeftBehind) {
  const auto trainer = make("go_on", 2);
  for (const char* name : {"step-2.0123456789abcdef.tmp", "best.next"})
    fs::create_directories(path_ + "/" + name + "/extra");
  trainer->loop().run(0, nullptr);
  EXPECT_EQ(names_in(path_), (std::set<std::string>{"LATEST", "best", "step-6", "step-8"}));
}

TEST_P(RunCheckpoints, BestIsTheBestStepAlsoWhereNoStepIsDue) {
  const auto trainer = make("go_on", 10, 1000, 1);
  int64_t best = 0, bests = 0;
  trainer->loop().run(0, [&](const TrainRecord& record) {
    settle(*trainer);
    EXPECT_EQ(record.save_failures, 0);
    if (record.best) best = record.result.step, ++bests;
    return true;
  });
  EXPECT_GT(bests, 1);
  EXPECT_EQ(checkpoint::Reader::open(path_ + "/best")->description().step, best);
  EXPECT_EQ(names_in(path_), (std::set<std::string>{"LATEST", "best", "step-8"}));
}

TEST_P(RunCheckpoints, AFailureNamesTheCheckpointThatWasMeant) {
  const auto trainer = make("go_on", 10, 2, 1);
  std::optional<FaultyDisk> fault;
  const auto told = [&] {
    return json::parse(trainer->metrics().json()).at("save_error").get<std::string>();
  };
  trainer->loop().run(4, [&](const TrainRecord& record) {
    settle(*trainer);
    switch (record.result.step) {
      case 1:  // the first validation is the best so far; only `best` is due
        EXPECT_TRUE(record.best);
        fault.emplace(GetParam().fault);
        break;
      case 2:
        EXPECT_EQ(told().rfind(path_ + "/best: ", 0), 0u) << told();
        break;
      case 3:
        EXPECT_EQ(told().rfind(path_ + "/step-2: ", 0), 0u) << told();
        fault.reset();
        break;
      default:
        break;
    }
    return true;
  });
}

INSTANTIATE_TEST_SUITE_P(Faults, RunCheckpoints,
                         ::testing::Values(Case{Fault::kDiskFull, false, "No space left"},
                                           Case{Fault::kDiskFull, true, "No space left"},
                                           Case{Fault::kReadOnly, false, "Read-only file system"},
                                           Case{Fault::kReadOnly, true, "Read-only file system"}),
                         [](const auto& info) {
                           return std::string(info.param.fault == Fault::kDiskFull ? "DiskFull"
                                                                                   : "ReadOnly") +
                                  (info.param.async ? "Async" : "");
                         });

}  // namespace run_checkpoints_test
}  // namespace hawser
