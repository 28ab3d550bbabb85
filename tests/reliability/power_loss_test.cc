// Power loss test: a save, the surrounding operations of a run, and the swap of `best` are recorded, and
// replayed to a disk that loses power after every operation, with random parts of the unflushed data. Every
// visible checkpoint must then be complete, and every durable one must exist. HAWSER_ORDERS sets how many
// states are sampled after each operation (default 20), HAWSER_SEED the seed, which is printed.
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>

#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/folder_names.h"
#include "engine/checkpoint/reader.h"
#include "engine/checkpoint/sharded_save.h"
#include "tests/checkpoint/sample.h"
#include "tests/checkpoint/scratch.h"
#include "tests/reliability/recorded_disk.h"

namespace hawser::reliability {
namespace power_loss_test {

namespace fs = std::filesystem;
using checkpoint::Reader;
using checkpoint::Sample;
using checkpoint::Scratch;

int64_t number_from(const char* variable, int64_t otherwise) {
  const char* text = std::getenv(variable);
  return text != nullptr ? std::strtoll(text, nullptr, 10) : otherwise;
}

/// Returns the step of the checkpoint, or -1 if nothing exists; fails the test if something incomplete
/// exists.
int64_t whole_step(const std::string& path) {
  if (!fs::exists(path)) return -1;
  try {
    const auto reader = Reader::open(path);
    reader->verify();
    return reader->description().step;
  } catch (const Error& error) {
    ADD_FAILURE() << path << " is visible and not whole: " << error.message();
    return -1;
  }
}

/// Checks a state: `promises` are the names given to Recorder::done.
void check_state(const std::string& folder, const std::vector<std::string>& promises) {
  int64_t newest = -1;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const auto step = checkpoint::step_of_name(entry.path().filename().string());
    if (step) newest = std::max(newest, whole_step(entry.path()));
  }
  const std::string found = checkpoint::newest_valid(folder, nullptr);
  const bool is_best = whole_step(folder + "/best") > newest;
  EXPECT_EQ(found, folder + (is_best ? "/best" : "/step-" + std::to_string(newest)));
  EXPECT_GE(newest, 1) << "no checkpoint is left";
  for (const std::string& promise : promises) {
    const std::string name = promise.substr(0, promise.find('-'));
    const int64_t found_step = name == "step" ? newest : whole_step(folder + "/" + name);
    EXPECT_GE(found_step, std::stoll(promise.substr(name.size() + 1)))
        << promise << " was durable and is gone";
  }
  checkpoint::sweep(folder);
  for (const auto& entry : fs::directory_iterator(folder))
    EXPECT_FALSE(checkpoint::is_temporary_name(entry.path().filename().string())) << entry.path();
}

using Work = std::function<void(const std::string& folder, Recorder* recorder)>;

/// Records `work` in a folder that has step-1 and best (step 1); returns the number of states that were
/// checked.
int64_t drill(const Work& work) {
  const Scratch scratch;
  const std::string folder = scratch / "run";
  const Sample sample(1);
  checkpoint::save(folder + "/step-1", sample.tensors, sample.description);
  checkpoint::save(folder + "/best", sample.tensors, sample.description);
  RecordedDisk disk(folder);
  std::vector<Operation> operations;
  {
    Recorder recorder(folder);
    work(folder, &recorder);
    operations = recorder.operations();
  }
  const int64_t orders = number_from("HAWSER_ORDERS", 20);
  const auto seed =
      static_cast<uint64_t>(number_from("HAWSER_SEED", static_cast<int64_t>(std::random_device{}())));
  std::printf("seed %llu (HAWSER_SEED), %zu operations, %lld states after each (HAWSER_ORDERS)\n",
              static_cast<unsigned long long>(seed), operations.size(), static_cast<long long>(orders));
  std::mt19937_64 random(seed);
  std::vector<std::string> promises = {"step-1", "best-1"};
  int64_t states = 0;
  for (size_t played = 0; played <= operations.size() && !::testing::Test::HasFailure(); ++played) {
    for (int64_t i = 0; i < orders; ++i, ++states) {
      const std::string state = scratch / "state";
      disk.lose_power(&random, state);
      SCOPED_TRACE("after operation " + std::to_string(played));
      check_state(state, promises);
      fs::remove_all(state);
      if (::testing::Test::HasFailure()) break;
    }
    if (played == operations.size()) break;
    disk.play(operations[played]);
    if (operations[played].kind == Operation::Kind::kDone) promises.push_back(operations[played].data);
  }
  return states;
}

TEST(PowerLoss, ASaveIsThereWholeOrNotAtAll) {
  EXPECT_GT(drill([](const std::string& folder, Recorder* recorder) {
              const Sample sample(2);
              checkpoint::save(folder + "/step-2", sample.tensors, sample.description, 50);
              recorder->done("step-2");
            }),
            400);
}

/// Only a step-N is also written to LATEST, which flushes the folder once more.
TEST(PowerLoss, ASaveUnderAnyNameIsDurable) {
  EXPECT_GT(drill([](const std::string& folder, Recorder* recorder) {
              const Sample sample(2);
              checkpoint::save(folder + "/mine", sample.tensors, sample.description);
              recorder->done("mine-2");
            }),
            300);
}

TEST(PowerLoss, ASaveOfManyRanksToo) {
  EXPECT_GT(
      drill([](const std::string& folder, Recorder* recorder) {
        const std::vector<float> weight(90, 0.5f);
        checkpoint::Description description;
        description.step = 2;
        checkpoint::ShardedSave save(folder + "/step-2");
        std::vector<std::string> indexes;
        for (int64_t rank = 0; rank < 3; ++rank)
          indexes.push_back(checkpoint::write_shard(
              save.folder(), static_cast<int>(rank), 3,
              {{"weight", DType::kF32, {90}, 30 * rank, 30 * rank + 30, weight.data() + 30 * rank}}, 1000));
        save.finish(indexes, description);
        recorder->done("step-2");
      }),
      400);
}

TEST(PowerLoss, WhatARunKeepsOutlivesWhatItRemoves) {
  EXPECT_GT(drill([](const std::string& folder, Recorder* recorder) {
              for (const int64_t step : {2, 3}) {
                const Sample sample(step);
                checkpoint::save(folder + "/step-" + std::to_string(step), sample.tensors,
                                 sample.description);
                recorder->done("step-" + std::to_string(step));
                checkpoint::retain(folder, 1);
              }
            }),
            800);
}

TEST(PowerLoss, ThereIsAlwaysABest) {
  EXPECT_GT(drill([](const std::string& folder, Recorder* recorder) {
              const Sample sample(2);
              checkpoint::save(folder + "/best.next", sample.tensors, sample.description);
              checkpoint::put_in_place(folder + "/best.next", folder + "/best");
              recorder->done("best-2");
            }),
            400);
}

/// Checks that the drill detects a save without any flush.
TEST(PowerLoss, TheDiskLosesWhatWasNotFlushed) {
  const Scratch scratch;
  fs::create_directory(scratch / "run");
  RecordedDisk disk(scratch / "run");
  using Kind = Operation::Kind;
  for (const Operation& operation : {Operation{Kind::kMakeFile, "a.tmp", "", ""},
                                     {Kind::kWrite, "a.tmp", "", "0123456789"},
                                     {Kind::kRename, "a.tmp", "a", ""},
                                     {Kind::kFlush, "", "", ""}})
    disk.play(operation);
  std::mt19937_64 random(1);
  std::set<size_t> sizes;
  for (int i = 0; i < 200; ++i) {
    const std::string state = scratch / "state";
    disk.lose_power(&random, state);
    sizes.insert(checkpoint::read_text(state + "/a").size());
    fs::remove_all(state);
  }
  EXPECT_GT(sizes.size(), 5u) << "renamed and not flushed: any length";
  disk.play({Kind::kFlush, "a", "", ""});
  disk.lose_power(&random, scratch / "state");
  EXPECT_EQ(checkpoint::read_text(scratch / "state/a"), "0123456789");
}

}  // namespace power_loss_test
}  // namespace hawser::reliability
