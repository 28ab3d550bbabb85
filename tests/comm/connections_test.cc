// Tests that ranks over TCP connect only with the ranks that a group needs, when the group is made.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <filesystem>
#include <mutex>
#include <numeric>
#include <thread>

#include "tests/comm/tcp_worlds.h"
#include "tests/harness/spawn_ranks.h"

namespace hawser::testing {
namespace connections_test {

using comm::Lane, comm::LinkTopology, comm::RankComm;
using Group = std::unique_ptr<comm::ProcessGroup>;

/// Reads the number until two readings agree, because threads of the rendezvous close descriptors a moment
/// after a rank does.
int64_t open_descriptors() {
  for (int64_t last = -1;;) {
    int64_t count = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
    if (count == last) return count;
    last = count;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

std::vector<int32_t> ranks_to(int32_t end) {
  std::vector<int32_t> ranks(static_cast<size_t>(end));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

/// Ranks of this process, each of which makes its groups on a thread of its own.
struct World {
  explicit World(int32_t ranks) : comms(tcp_world(ranks)) {
    for (int32_t r = 0; r < ranks; ++r)
      ends.push_back(comms[static_cast<size_t>(r)]->connect(r, test_comm_options()));
  }
  /// Returns the number of pairs that connect while each rank of `members` makes the group; the group lives
  /// as long as the World.
  int64_t connects(const std::vector<int32_t>& members, const std::string& name, LinkTopology pairs,
                   const Lane& lane = {}) {
    const int64_t before = open_descriptors();
    std::vector<std::thread> threads;
    for (const int32_t r : members) {
      threads.emplace_back([&, r] {
        Group group = ends[static_cast<size_t>(r)]->make_group(members, name, lane, pairs);
        group->wait(group->barrier());
        const std::lock_guard lock(mutex);
        groups.push_back(std::move(group));
      });
    }
    for (std::thread& thread : threads) thread.join();
    return (open_descriptors() - before) / 2;
  }

  std::vector<std::shared_ptr<comm::Comm>> comms;
  std::vector<std::unique_ptr<RankComm>> ends;
  std::mutex mutex;
  std::vector<Group> groups;
};

TEST(Connections, AreThoseThatGroupsNeedMadeOnceInEachLane) {
  World world(8);
  EXPECT_EQ(world.connects(ranks_to(8), "agreements", LinkTopology::kTree),
            8 * 5 / 2);  // members 1, 2 and 4 apart
  EXPECT_EQ(world.connects(ranks_to(8), "again", LinkTopology::kTree), 0);
  EXPECT_EQ(world.connects({0, 1, 2, 3}, "half", LinkTopology::kAll), 1);  // only 0 and 3 are new
  EXPECT_EQ(world.connects({2, 5, 7}, "some", LinkTopology::kAll), 2);     // 2 with 5, and 2 with 7, are new
  EXPECT_EQ(world.connects({0, 3, 4, 7}, "column", LinkTopology::kTree), 1);  // only 4 and 7 are new
  EXPECT_EQ(world.connects(ranks_to(8), "side", LinkTopology::kTree, {"side", false}), 20);
  EXPECT_EQ(world.connects(ranks_to(8), "all", LinkTopology::kAll), 8 * 7 / 2 - 24);
}

TEST(Connections, GrowWithTheLogarithmOfATree) {
  for (const int32_t n : {1, 2, 3, 5, 8, 100, 256, 1000, 1024}) {
    for (const int32_t m : {0, 1, n / 2, n - 1}) {
      if (m >= n) continue;
      const std::vector<int32_t> some = comm::partners(LinkTopology::kTree, n, m);
      EXPECT_LE(some.size(), 2 * static_cast<size_t>(std::bit_width(static_cast<uint32_t>(n - 1)))) << n;
      EXPECT_EQ(comm::partners(LinkTopology::kAll, n, m).size(), static_cast<size_t>(n - 1));
      for (const int32_t other : some) {  // m is also a partner of each of its partners
        const std::vector<int32_t> back = comm::partners(LinkTopology::kTree, n, other);
        EXPECT_TRUE(std::binary_search(back.begin(), back.end(), m)) << n << ": " << m << " and " << other;
      }
    }
  }
}

/// Returns each rank's error if rank 5 of 8 does not do what the other ranks do.
std::vector<Caught> errors_without_rank_5(const RankFn& fn) {
  comm::CommOptions options = test_comm_options();
  options.timeout_seconds = 1;
  const auto errors = run_world(
      tcp_world(8),
      [&](RankComm& rank) {
        const auto world = rank.make_group(ranks_to(8), "world", {}, LinkTopology::kTree);
        world->wait(world->barrier());
        if (rank.rank() == 5) return std::this_thread::sleep_for(std::chrono::seconds(4));
        fn(rank);
      },
      options);
  std::vector<Caught> caught_errors;
  for (size_t r = 0; r < errors.size(); ++r)
    if (r != 5) caught_errors.push_back(caught(errors[r]));
  return caught_errors;
}

TEST(Connections, WhoDoesNotMakeAGroupIsNamedOnAllOthers) {
  for (const Caught& error : errors_without_rank_5([](RankComm& rank) {
         rank.make_group(ranks_to(8), "weights", {"side", false}, LinkTopology::kTree);
       })) {
    EXPECT_EQ(error.code, static_cast<int32_t>(Code::kTimeout)) << error.message;
    EXPECT_NE(error.message.find("rank 5 did not create group 'weights' within"), std::string::npos)
        << error.message;
  }
}

/// The error names the rank on all other ranks, although not all have a connection to it.
TEST(Connections, WhoStaysAwayFromAnAgreementIsNamedOnAllOthers) {
  for (const Caught& error : errors_without_rank_5([](RankComm& rank) {
         const auto group = rank.make_group({0, 1, 2, 3, 4, 5, 6, 7}, "world", {}, LinkTopology::kTree);
         int64_t sum = 1;
         group->wait(group->all_reduce_i64(&sum, 1));
       })) {
    EXPECT_EQ(error.code, static_cast<int32_t>(Code::kTimeout)) << error.message;
    EXPECT_NE(error.message.find("rank 5 never entered it"), std::string::npos) << error.message;
  }
}

TEST(Connections, OfAllGroupsAndLanesAreCountedBeforeTheFirstIsMade) {
  World world(4);
  const comm::GroupRequest groups[] = {{ranks_to(4), "all", {}, LinkTopology::kAll},
                                       {ranks_to(4), "again", {}, LinkTopology::kTree},
                                       {ranks_to(4), "side", {"side", false}, LinkTopology::kAll}};
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const int64_t open = open_descriptors() - 1;  // excludes the descriptor of the folder itself
  const int64_t needed = open + 2 * 3 + 4 + 32;
  const auto error_at = [&](int64_t most) {
    rlimit low = limit;
    low.rlim_cur = static_cast<rlim_t>(most);
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
    Caught error;
    try {
      world.ends[1]->expect(groups);
    } catch (...) {
      error = caught(std::current_exception());
    }
    setrlimit(RLIMIT_NOFILE, &limit);
    return error;
  };
  EXPECT_EQ(error_at(needed + 1).code, 0);
  const Caught error = error_at(needed - 1);
  EXPECT_EQ(error.code, static_cast<int32_t>(Code::kFailedPrecondition));
  EXPECT_NE(error.message.find("may have " + std::to_string(needed - 1)), std::string::npos) << error.message;
  EXPECT_EQ(open_descriptors() - 1, open);
}

TEST(Connections, ATooLowLimitIsSaidWithBothNumbersBeforeAnyoneIsCalled) {
  World world(4);
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  rlimit low = limit;
  low.rlim_cur = static_cast<rlim_t>(open_descriptors() + 8);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  Caught error;
  try {
    world.ends[1]->make_group(ranks_to(4), "world");
  } catch (...) {
    error = caught(std::current_exception());
  }
  setrlimit(RLIMIT_NOFILE, &limit);
  EXPECT_EQ(error.code, static_cast<int32_t>(Code::kFailedPrecondition));
  EXPECT_NE(error.message.find("rank 1 of 4 needs "), std::string::npos) << error.message;
  EXPECT_NE(error.message.find("may have " + std::to_string(low.rlim_cur)), std::string::npos)
      << error.message;
}

}  // namespace connections_test
}  // namespace hawser::testing
