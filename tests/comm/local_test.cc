// Tests of properties that only the local transport has.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "engine/comm/local/local_transport.h"
#include "engine/comm/queued_rank.h"
#include "tests/comm/worlds.h"
#include "tests/harness/spawn_ranks.h"

namespace hawser::testing {
namespace local_test {

constexpr auto code = [](Code c) { return static_cast<int32_t>(c); };
bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// If each member compared all calls, the work would grow with the square of the number of members.
TEST(LocalCalls, AreComparedByOneMemberForAll) {
  constexpr int32_t kRanks = 5;
  const auto session = std::make_shared<comm::Session>(kRanks);
  std::vector<std::thread> threads;
  for (int32_t r = 0; r < kRanks; ++r) {
    threads.emplace_back([&, r] {
      auto transport = std::make_unique<comm::LocalTransport>(session, r, test_comm_options());
      comm::QueuedRank rank(std::move(transport), 0);
      const auto group = rank.make_group({0, 1, 2, 3, 4}, "world", {}, comm::LinkTopology::kAll);
      int64_t sum = 1;
      for (int32_t call = 0; call < 7; ++call) group->wait(group->all_reduce_i64(&sum, 1));
      group->wait(group->barrier());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(session->meeting({0, 1, 2, 3, 4}, "world", 0)->compared.load(), 8);
}

TEST(LocalFailures, AMemberThatEndsIsNamedAtOnce) {
  const auto errors = run_world(
      local_world(3),
      [](comm::RankComm& rank) {
        const auto group = world_group(rank);
        group->wait(group->barrier());
        if (rank.rank() == 2) return;
        group->wait(group->barrier());
      },
      test_comm_options());
  for (const size_t r : {0, 1}) {
    EXPECT_EQ(caught(errors[r]).code, code(Code::kUnavailable));
    EXPECT_TRUE(contains(caught(errors[r]).message, "rank 2 ended before it")) << caught(errors[r]).message;
  }
}

/// Rank 3 waits for 2, which waits in a collective for 1, which waits for 0. Rank 3 has the shortest timeout,
/// and its error must name rank 0.
TEST(LocalFailures, WhoStandsStillIsNamedAcrossCallsOfGroups) {
  std::atomic<bool> over{false};
  const auto errors = run_world(
      local_world(4),
      [&over](comm::RankComm& rank) {
        const int32_t r = rank.rank();
        int64_t number = 0;
        const auto first = r < 2 ? rank.make_group({0, 1}, "first") : nullptr;
        const auto both = r == 1 || r == 2 ? rank.make_group({1, 2}, "both") : nullptr;
        const auto last =
            r > 1 ? rank.make_group({2, 3}, "last", {.name = "last", .timeout_seconds = 2}) : nullptr;
        if (r == 0)
          while (!over) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        if (r == 1) first->wait(first->recv(&number, 8, 0));
        if (both) both->wait(both->barrier());
        if (r != 3) return;
        try {
          last->wait(last->recv(&number, 8, 0));
        } catch (...) {
          over = true;
          throw;
        }
      },
      test_comm_options());
  const std::string message = caught(errors[3]).message;
  EXPECT_EQ(caught(errors[3]).code, code(Code::kTimeout));
  EXPECT_TRUE(contains(message, "for rank 2, blocked by rank 0")) << message;
}

TEST(LocalFailures, ACommConnectsAnewOnceAllRanksOfABrokenOneAreGone) {
  const auto comm = comm::make_local(2);
  auto first = comm->connect(0, test_comm_options());
  EXPECT_THROW(comm->connect(0, test_comm_options()), Error);
  auto second = comm->connect(1, test_comm_options());
  first->abort(Error(Code::kAborted, "for the test"));
  first.reset();
  try {
    comm->connect(0, test_comm_options());
    ADD_FAILURE() << "a broken comm was connected";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kBusy);
  }
  second.reset();
  spawn_ranks(*comm, [](comm::RankComm& rank) {
    const auto group = world_group(rank);
    group->wait(group->barrier());
  });
}

TEST(Local, TheLedgerCountsTheRingForms) {
  spawn_ranks(4, [](comm::RankComm& rank) {
    const auto group = world_group(rank);
    std::vector<float> x(4 * 103), out(4 * 103);
    const comm::GatherPiece gather = {out.data(), x.data(), 103};
    const comm::ReducePiece reduce = {x.data(), out.data(), 103};
    const comm::AllReducePiece all_reduce = {x.data(), x.data(), 103};
    group->all_gather({&gather, 1}, DType::kBf16);
    group->reduce_scatter({&reduce, 1}, {.wire = DType::kF16});
    group->all_reduce({&all_reduce, 1}, {});
    group->all_reduce({&all_reduce, 1}, {.wire = DType::kBf16, .round_to = DType::kBf16});
    group->all_to_all(out.data(), x.data(), 10);
    group->wait(group->broadcast(x.data(), 12, 1));
    const comm::Traffic traffic = group->traffic();
    const auto entry = [&](comm::Operation op) { return traffic.by_operation[static_cast<size_t>(op)]; };
    EXPECT_EQ(entry(comm::Operation::kAllGather).bytes, 3 * 103 * 2);
    EXPECT_EQ(entry(comm::Operation::kReduceScatter).bytes, 3 * 103 * 2);
    EXPECT_EQ(entry(comm::Operation::kAllReduce).bytes, 2 * 3 * 26 * 4 + 2 * 3 * 26 * 2);
    EXPECT_EQ(entry(comm::Operation::kAllReduce).calls, 2);
    EXPECT_EQ(entry(comm::Operation::kAllToAll).bytes, 30);
    EXPECT_EQ(entry(comm::Operation::kBroadcast).bytes, rank.rank() == 1 ? 12 : 0);
  });
}

TEST(Local, RecordsAreTakenOldestFirstAndTheRingForgetsTheOldest) {
  spawn_ranks(2, [](comm::RankComm& rank) {
    const auto group = world_group(rank);
    comm::Work work;
    for (int i = 0; i < 3000; ++i) work = group->barrier();  // more than the queue can contain
    group->wait(work);
    std::vector<comm::Record> records(4096);
    EXPECT_EQ(rank.take_records(0, records.data(), 100), 100);
    EXPECT_EQ(records[0].ticket, 3000u - 2048 + 1);
    for (int i = 0; i < 100; ++i) {
      EXPECT_EQ(records[i].ticket, records[0].ticket + static_cast<uint64_t>(i));
      EXPECT_LE(records[i].issued, records[i].begun);
      EXPECT_LE(records[i].begun, records[i].ended);
    }
    EXPECT_EQ(rank.take_records(0, records.data(), 4096), 1948);
    EXPECT_EQ(rank.take_records(0, records.data(), 4096), 0);
  });
}

TEST(Local, ABandwidthLimitMakesCallsTakeAsLongAsItSays) {
  comm::CommOptions options = test_comm_options();
  options.bandwidth_limit = 1e6;
  spawn_ranks(
      2,
      [](comm::RankComm& rank) {
        const auto group = world_group(rank);
        std::vector<float> x(10000);
        const comm::AllReducePiece piece = {x.data(), x.data(), 10000};  // 2 * 5000 * 4 bytes take 40 ms
        group->wait(group->barrier());
        const auto begin = std::chrono::steady_clock::now();
        group->wait(group->all_reduce({&piece, 1}, {}));
        EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(40));
      },
      options);
}

TEST(Local, WorkIsDoneOnceItsResultsAreThere) {
  spawn_ranks(2, [](comm::RankComm& rank) {
    const auto group = world_group(rank);
    EXPECT_TRUE(group->done(comm::Work{}));
    group->wait(comm::Work{});
    int64_t x = rank.rank() + 1;
    const comm::Work work = group->all_reduce_i64(&x, 1);
    while (!group->done(work)) std::this_thread::yield();
    EXPECT_EQ(x, 3);
  });
}

}  // namespace local_test
}  // namespace hawser::testing
