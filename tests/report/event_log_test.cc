// Tests event files for TensorBoard with an independent reader (read_events.py): they hold every step with
// its numbers, each start adds a file, and failures are reported and do not stop a run.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "engine/comm/comm.h"
#include "engine/report/event_file.h"
#include "tests/harness/file_faults.h"
#include "tests/harness/small_config.h"

namespace hawser {
namespace event_log_test {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::Fault;
using testing::FaultyDisk;
using testing::ScratchFolder;
using testing::small_config;
using train::Trainer;
using train::TrainRecord;

json read_events(const std::string& folder) {
  const std::string command = "python3 " HAWSER_READ_EVENTS " '" + folder + "'";
  FILE* pipe = popen(command.c_str(), "r");
  std::string text;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) text.push_back(static_cast<char>(c));
  EXPECT_EQ(pclose(pipe), 0);
  return json::parse(text, nullptr, false);
}

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// Returns the steps of a tag's points.
std::vector<int64_t> steps_of(const json& file, const std::string& tag) {
  std::vector<int64_t> steps;
  if (file.at("scalars").contains(tag))
    for (const json& point : file.at("scalars").at(tag)) steps.push_back(point.at(0));
  return steps;
}

class EventLog : public ::testing::Test {
 protected:
  std::unique_ptr<Trainer> make(int ranks = 1) {
    config::ConfigTree config = small_config(tokens_);
    config.set("/telemetry/tensorboard", '"' + events_ + '"');
    config.set("/mesh/dp_shard", std::to_string(ranks));
    config.set("/data/validation_fraction", "0.2");
    config.set("/train", R"({"steps": 6, "eval_every": 3, "eval_batches": 1})");
    return Trainer::create(config, false, &cancel_, ranks > 1 ? comm::make_local(ranks) : nullptr);
  }
  json metrics(const Trainer& trainer) const { return json::parse(trainer.metrics().json()); }

  ScratchFolder folder_;
  const std::string tokens_ = testing::write_tokens(folder_, 20000);
  const std::string events_ = folder_.file("new/events");
  std::atomic<bool> cancel_{false};
};

TEST(EventFile, ItsCrcIsThatOfTheStandard) {
  // The check value of CRC-32C is 0xe3069283 for "123456789"; it is masked as in TFRecords.
  EXPECT_EQ(train::masked_crc32c("123456789"), ((0xe3069283u >> 15 | 0xe3069283u << 17) + 0xa282ead8u));
}

TEST_F(EventLog, HoldsTheNumbersOfEachStep) {
  const double began = now();
  std::vector<TrainRecord> records;
  const auto trainer = make();
  trainer->loop().run(0, [&](const TrainRecord& record) { return records.push_back(record), true; });
  const json files = read_events(events_);
  ASSERT_EQ(files.size(), 1u) << files;
  const json& file = files[0];
  EXPECT_EQ(file.at("version"), "brain.Event:2");
  EXPECT_EQ(file.at("start"), 1);
  EXPECT_EQ(file.at("whole"), true);
  ASSERT_EQ(records.size(), 6u);
  const auto expect = [&](const std::string& tag, size_t i, double value) {
    const json& point = file.at("scalars").at(tag).at(i);
    EXPECT_EQ(point.at(0), static_cast<int64_t>(i + 1)) << tag;
    EXPECT_EQ(point.at(1).get<float>(), static_cast<float>(value)) << tag;
    EXPECT_GE(point.at(2).get<double>(), began - 0.001);
    EXPECT_LE(point.at(2).get<double>(), now());
  };
  for (size_t i = 0; i < records.size(); ++i) {
    const train::StepResult& r = records[i].result;
    expect("train/loss", i, r.loss);
    expect("train/grad_norm", i, r.grad_norm);
    expect("train/learning_rate", i, r.learning_rate);
    expect("train/tokens_per_second", i, records[i].tokens_per_second);
    expect("train/step_seconds", i, r.seconds);
    expect("train/tokens", i, static_cast<double>(r.tokens));
    expect("train/samples", i, static_cast<double>(r.samples));
    expect("train/skipped", i, 0);
    expect("communication/bytes", i, 0);
  }
  EXPECT_EQ(steps_of(file, "validation/loss"), (std::vector<int64_t>{3, 6}));
  EXPECT_EQ(file.at("scalars").at("validation/loss").at(1).at(1).get<float>(),
            static_cast<float>(records[5].validation_loss));
  EXPECT_EQ(metrics(*trainer).at("event_failures"), 0);
}

TEST_F(EventLog, AResumedRunAddsAFileThatStartsWhereItGoesOn) {
  const std::string checkpoint = folder_.file("checkpoint");
  {
    const auto trainer = make();
    trainer->loop().run(2, nullptr);
    trainer->saves().save(checkpoint);
    trainer->loop().run(4, nullptr);  // the run loses these steps
  }
  const auto resumed = make();
  resumed->loads().load(checkpoint, false);
  resumed->loop().run(0, nullptr);
  const json files = read_events(events_);
  ASSERT_EQ(files.size(), 2u) << files;
  EXPECT_EQ(steps_of(files[0], "train/loss"), (std::vector<int64_t>{1, 2, 3, 4}));
  EXPECT_EQ(steps_of(files[1], "train/loss"), (std::vector<int64_t>{3, 4, 5, 6}));
  EXPECT_EQ(files[1].at("start"), 3);
}

TEST_F(EventLog, OneOfManyRanksWrites) {
  const auto trainer = make(3);
  trainer->loop().run(2, nullptr);
  const json files = read_events(events_);
  ASSERT_EQ(files.size(), 1u) << files;
  EXPECT_EQ(steps_of(files[0], "train/loss"), (std::vector<int64_t>{1, 2}));
  EXPECT_GT(files[0].at("scalars").at("communication/bytes").at(0).at(1), 0);
}

TEST_F(EventLog, AFullDiskIsToldAndTrainingGoesOn) {
  const auto trainer = make();
  trainer->loop().run(1, nullptr);
  {
    const FaultyDisk full(Fault::kDiskFull);
    trainer->loop().run(3, nullptr);
  }
  trainer->loop().run(4, nullptr);
  const json told = metrics(*trainer);
  EXPECT_EQ(told.at("event_failures"), 5) << "steps 2, 3 and 4, and the validations that end the runs";
  const auto error = told.at("event_error").get<std::string>();
  EXPECT_NE(error.find(events_ + "/events.out.tfevents."), std::string::npos) << error;
  EXPECT_NE(error.find("No space left on device"), std::string::npos) << error;
  const json files = read_events(events_);
  ASSERT_EQ(files.size(), 1u);
  EXPECT_EQ(steps_of(files[0], "train/loss"), (std::vector<int64_t>{1}));
  EXPECT_EQ(files[0].at("whole"), false);
}

TEST_F(EventLog, AFolderThatCannotBeMadeIsToldAndTrainingGoesOn) {
  std::ofstream(folder_.file("new")) << "a file where the folder should be";
  const auto trainer = make();
  trainer->loop().run(0, nullptr);
  const json told = metrics(*trainer);
  EXPECT_EQ(told.at("step"), 6);
  EXPECT_EQ(told.at("event_failures"), 8);
  EXPECT_NE(told.at("event_error").get<std::string>().find(folder_.file("new")), std::string::npos) << told;
}

TEST_F(EventLog, AFileThatCannotBeBegunIsNotLeft) {
  fs::create_directories(events_);
  const FaultyDisk full(Fault::kDiskFull);
  const auto trainer = make();
  trainer->loop().run(2, nullptr);
  EXPECT_EQ(metrics(*trainer).at("event_failures"), 3) << "two steps, and the validation that ends the run";
  EXPECT_TRUE(fs::is_empty(events_));
}

}  // namespace event_log_test
}  // namespace hawser
