// State places test: a save beside steps reads the state of its own moment, whatever steps and hosts write
// meanwhile, and no copy of the state is in memory.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "engine/assembly/memory_check.h"
#include "engine/parallel/offload_file.h"
#include "engine/parallel/state_places.h"
#include "engine/report/plan_report.h"
#include "tests/harness/equal_tensors.h"
#include "tests/harness/small_config.h"

namespace hawser::testing {
namespace state_places_test {

using parallel::StatePlaces;
using train::Trainer;

TEST(StatePlaces, ChangeOnlyWhileTheSnapshotHasThem) {
  StatePlaces places({0, 4096, 12288}, 16384, 100000);
  EXPECT_EQ(places.now(5000), 5000);
  EXPECT_FALSE(places.leave_snapshot(5000));
  places.begin_snapshot();
  const auto move = places.leave_snapshot(5000);
  ASSERT_TRUE(move);
  EXPECT_EQ(move->from, 4096);
  EXPECT_EQ(move->to, 104096);
  EXPECT_EQ(move->bytes, 8192);
  EXPECT_FALSE(places.leave_snapshot(4096)) << "a later step writes the same place";
  EXPECT_EQ(places.now(5000), 105000);
  EXPECT_EQ(places.in_snapshot(5000), 5000);
  EXPECT_EQ(places.now(12288), 12288);
  places.end_snapshot();
  EXPECT_FALSE(places.leave_snapshot(5000));
  places.begin_snapshot();
  EXPECT_EQ(places.in_snapshot(5000), 105000);
  EXPECT_EQ(places.leave_snapshot(5000)->to, 4096);
  EXPECT_EQ(places.now(20000), 20000) << "beyond the slots";
  EXPECT_FALSE(places.leave_snapshot(20000));
}

/// The host changes a few bytes of a slot that the snapshot needs.
TEST(StatePlaces, KeepTheRestOfASlotThatTheHostChanges) {
  constexpr int64_t kSlot = 3 << 20, kEnd = 2 * kSlot;
  parallel::OffloadFile file(::testing::TempDir(), kEnd + 4096, {0, kSlot}, kEnd);
  std::vector<char> old(kEnd), now(kEnd), found(kEnd);
  for (size_t i = 0; i < old.size(); ++i) old[i] = static_cast<char>(i * 7);
  file.write(0, old.data(), kSlot);
  file.write(kSlot, old.data() + kSlot, kSlot);
  now = old;
  file.begin_snapshot();
  const std::vector<char> changed(1000, 'x');
  file.write(kSlot + 5000, changed.data(), 1000);
  std::copy(changed.begin(), changed.end(), now.begin() + kSlot + 5000);
  for (const int64_t slot : {int64_t{0}, kSlot}) file.read(slot, found.data() + slot, kSlot);
  EXPECT_TRUE(found == now);
  for (const int64_t slot : {int64_t{0}, kSlot}) file.read_snapshot(slot, found.data() + slot, kSlot);
  EXPECT_TRUE(found == old);
  file.end_snapshot();
}

/// The write waits until two steps have gone on and a tensor was set.
TEST(StatePlaces, SavesTheStateOfItsMoment) {
  const testing::ScratchFolder folder;
  const std::string tokens = testing::write_tokens(folder, 20000);
  std::atomic<bool> cancel{false};
  for (const char* precision : {"fp32", "bf16"})
    for (const bool weights : {false, true}) {
      const auto make = [&](bool away) {
        std::string more =
            fmt::format(R"(, "checkpoint": {{"path": "{}", "async": true}})", folder.file("unused"));
        if (away)
          more += fmt::format(R"(, "offload": {{"optimizer": "disk", "parameters": "{}", "folder": "{}"}})",
                              weights ? "disk" : "off", folder.file("."));
        return Trainer::create(testing::small_config(tokens, precision, 2, more), false, &cancel);
      };
      SCOPED_TRACE(fmt::format("{} {}", precision, weights));
      const auto moved = make(true), kept = make(false);
      for (int step = 0; step < 2; ++step) moved->train_step(), kept->train_step();
      for (int save = 0; save < 3; ++save) {
        const std::string path = folder.file(fmt::format("{}{}{}", precision, weights, save));
        const auto operation = moved->saves().save_async(path);
        for (int step = 0; step < 2; ++step) moved->train_step();
        moved->saves().saver().wait();
        ASSERT_FALSE(operation->error());
        const auto loaded = make(false);
        loaded->loads().load(path, false);
        expect_equal_tensors(*kept, *loaded);
        for (int step = 0; step < 2; ++step) kept->train_step();
        expect_equal_tensors(*kept, *moved);
      }
      const train::Rank& rank = moved->ranks().first();
      EXPECT_GT(rank.plans().snapshot_bytes, 0);
      EXPECT_EQ(rank.plans().snapshot_bytes, rank.plans().outside[static_cast<size_t>(plan::Space::kDisk)]);
      const auto copies = [](const Trainer& t) {
        return train::save_copy_bytes(t.ranks().first().layout(), t.ranks().model().table(),
                                      t.ranks().config(), true);
      };
      EXPECT_LE(copies(*moved), weights ? 0 : copies(*kept) / 3);
    }
}

/// Without second places, an asynchronous save copies what is on disk too, as the plan says.
TEST(StatePlaces, ASaveCopiesWhatThePlanLists) {
  const testing::ScratchFolder folder;
  const std::string tokens = testing::write_tokens(folder, 20000);
  std::atomic<bool> cancel{false};
  const std::string away = fmt::format(
      R"(, "offload": {{"optimizer": "disk", "parameters": "disk", "folder": "{}"}})", folder.file("."));
  const auto copied = [&](const std::string& more, const std::string& name) {
    const config::ConfigTree config = testing::small_config(tokens, "bf16", 2, more);
    const auto trainer = Trainer::create(config, false, &cancel);
    trainer->train_step();
    trainer->saves().save_async(folder.file(name));
    trainer->saves().saver().wait();
    const auto plan = nlohmann::json::parse(train::plan_report(config, true));
    EXPECT_EQ(trainer->saves().copies_taken_bytes(), plan.at("save_copy_bytes").get<int64_t>()) << more;
    return trainer->saves().copies_taken_bytes();
  };
  const int64_t all = copied("", "kept");
  EXPECT_GT(all, 0);
  EXPECT_EQ(copied(away, "away"), all);
  EXPECT_EQ(copied(away + R"(, "checkpoint": {"async": true})", "async"), all) << "a run without a folder";
  const std::string run =
      fmt::format(R"(, "checkpoint": {{"path": "{}", "async": true}})", folder.file("run"));
  EXPECT_EQ(copied(away + run, "places"), 0);
}

}  // namespace state_places_test
}  // namespace hawser::testing
