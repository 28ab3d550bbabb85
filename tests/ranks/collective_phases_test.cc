// CollectivePhases tests: every rank's answer reaches all ranks. If any rank fails, all ranks throw an error
// with its code, its number and its reason.
#include "engine/ranks/collective_phases.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>

#include "engine/base/error.h"
#include "engine/execute/agreed_error.h"
#include "tests/harness/spawn_ranks.h"

namespace hawser::testing {
namespace collective_phases_test {

TEST(CollectivePhases, EveryoneLearnsEveryonesAnswer) {
  spawn_ranks(3, [](comm::RankComm& rank) {
    const auto world = world_group(rank);
    train::CollectivePhases together(world.get());
    const auto mine = [&] { return std::string(static_cast<size_t>(rank.rank()), 'x'); };
    EXPECT_EQ(together.from_all(mine), (std::vector<std::string>{"", "x", "xx"}));
    EXPECT_EQ(together.from_first([&] { return "of rank " + std::to_string(rank.rank()); }), "of rank 0");
  });
}

/// All ranks wait for each other in each call, so the cost of an exchange with one call for each rank
/// would grow with the square of their number.
TEST(CollectivePhases, TheNumberOfCallsDoesNotGrowWithTheNumberOfRanks) {
  const auto calls_of = [](int32_t ranks,
                           const std::function<void(train::CollectivePhases&, int32_t)>& exchange) {
    std::atomic<int64_t> calls{0};
    spawn_ranks(ranks, [&](comm::RankComm& rank) {
      const auto world = world_group(rank);
      train::CollectivePhases together(world.get());
      exchange(together, rank.rank());
      if (rank.rank() != 0) return;
      for (const auto& entry : world->traffic().by_operation) calls += entry.calls;
    });
    return calls.load();
  };
  const auto of_first = [](train::CollectivePhases& together, int32_t) {
    EXPECT_EQ(together.from_first([] { return std::string(1000, 'x'); }), std::string(1000, 'x'));
  };
  const auto of_nobody = [](train::CollectivePhases& together, int32_t) {
    for (const std::string& text : together.from_all([] { return std::string(); })) EXPECT_EQ(text, "");
  };
  const auto of_all = [](train::CollectivePhases& together, int32_t rank) {
    const auto text = [](size_t r) { return "rank " + std::to_string(r); };
    const std::vector<std::string> all = together.from_all([&] { return text(static_cast<size_t>(rank)); });
    for (size_t r = 0; r < all.size(); ++r) EXPECT_EQ(all[r], text(r));
  };
  for (const auto& exchange : {+of_first, +of_nobody, +of_all})
    EXPECT_EQ(calls_of(16, exchange), calls_of(4, exchange));
}

TEST(CollectivePhases, ARankThatFailsMakesAllFail) {
  for (int32_t failing = 0; failing < 3; ++failing) {
    spawn_ranks(3, [&](comm::RankComm& rank) {
      const auto world = world_group(rank);
      train::CollectivePhases together(world.get());
      try {
        together.from_all([&]() -> std::string {
          if (rank.rank() == failing) fail(Code::kIo, "the disk is full");
          return "written";
        });
        ADD_FAILURE() << "rank " << rank.rank() << " went on though rank " << failing << " failed";
      } catch (const train::AgreedError& e) {
        EXPECT_EQ(e.code(), Code::kIo);
        EXPECT_EQ(e.message(), "rank " + std::to_string(failing) + ": the disk is full");
      }
      EXPECT_EQ(together.from_first([] { return std::string("again"); }), "again");  // still usable
    });
  }
}

}  // namespace collective_phases_test
}  // namespace hawser::testing
