// Together: every rank's answer reaches all ranks, and a rank that fails, whichever it is, makes all fail
// with its code, its number and its reason.
#include "engine/train/ranks/together.h"

#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "engine/train/ranks/agreed_error.h"
#include "tests/harness/spawn_ranks.h"

namespace hawser::testing {
namespace {

TEST(Together, EveryoneLearnsEveryonesAnswer) {
  spawn_ranks(3, [](comm::RankComm& rank) {
    const auto world = world_group(rank);
    train::Together together(world.get());
    const auto mine = [&] { return std::string(static_cast<size_t>(rank.rank()), 'x'); };
    EXPECT_EQ(together.from_all(mine), (std::vector<std::string>{"", "x", "xx"}));
    EXPECT_EQ(together.from_first([&] { return "of rank " + std::to_string(rank.rank()); }), "of rank 0");
  });
}

TEST(Together, ARankThatFailsMakesAllFail) {
  for (int32_t failing = 0; failing < 3; ++failing) {
    spawn_ranks(3, [&](comm::RankComm& rank) {
      const auto world = world_group(rank);
      train::Together together(world.get());
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
      EXPECT_EQ(together.from_first([] { return std::string("again"); }), "again");  // still in touch
    });
  }
}

}  // namespace
}  // namespace hawser::testing
