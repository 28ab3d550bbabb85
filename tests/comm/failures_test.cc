// Tests of failures: every rank soon throws an error of the same class, which names the rank and the cause.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <thread>

#include "tests/comm/operations.h"
#include "tests/comm/worlds.h"
#include "tests/harness/spawn_ranks.h"

namespace hawser::testing {
namespace failures_test {

using comm::Reduction;
constexpr auto code = [](Code c) { return static_cast<int32_t>(c); };

class Failures : public ::testing::TestWithParam<WorldKind> {
 protected:
  std::vector<Caught> run(int32_t ranks, const RankFn& fn, double timeout = 20) const {
    comm::CommOptions options = test_comm_options();
    options.timeout_seconds = timeout;
    std::vector<Caught> all;
    for (const auto& error : run_world(GetParam().make(ranks), fn, options)) all.push_back(caught(error));
    return all;
  }

  /// All ranks except `absent` enter an all_reduce.
  std::vector<Caught> sum_without(const std::vector<int32_t>& absent, int32_t ranks, const Reduction& r) {
    std::atomic<int32_t> waiting{ranks - static_cast<int32_t>(absent.size())};
    std::barrier ready(ranks);  // the time to make a rank must not count as waiting
    return run(
        ranks,
        [&](comm::RankComm& rank) {
          const auto group = world_group(rank);
          ready.arrive_and_wait();
          group->wait(group->barrier());
          if (std::find(absent.begin(), absent.end(), rank.rank()) != absent.end()) {
            while (waiting > 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
            return;
          }
          float x = 1;
          const comm::AllReducePiece piece = {&x, &x, 1};
          const comm::Work work = group->all_reduce({&piece, 1}, r);
          const struct Count {
            std::atomic<int32_t>& n;
            ~Count() { --n; }
          } count{waiting};
          group->wait(work);
        },
        1.5);
  }
};

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_P(Failures, ATimeoutNamesWhoDidNotComeToWhichCall) {
  const auto errors = sum_without({1, 3}, 5, {});
  for (const size_t r : {0, 2, 4}) {
    EXPECT_EQ(errors[r].code, code(Code::kTimeout)) << errors[r].message;
    EXPECT_TRUE(contains(errors[r].message, "all_reduce 1 of group 'world'")) << errors[r].message;
    EXPECT_TRUE(contains(errors[r].message, "rank 1 and rank 3 never entered")) << errors[r].message;
  }
}

/// Members that receive nothing from rank 3 in this call must name it too.
TEST_P(Failures, ATimeoutOfASumInTwoHopsNamesWhoDidNotCome) {
  const auto errors = sum_without({3}, 6, {.sum_group = 2});
  for (const size_t r : {0, 1, 2, 4, 5}) {
    EXPECT_EQ(errors[r].code, code(Code::kTimeout)) << errors[r].message;
    EXPECT_TRUE(contains(errors[r].message, ": rank 3 never entered")) << errors[r].message;
  }
}

/// Transports without shared memory detect it by the tag of the other call; the local transport reaches the
/// deadline.
TEST_P(Failures, ACallThatIsLeftOutIsNamedWithItsGroup) {
  const auto errors = run(
      3,
      [](comm::RankComm& rank) {
        const auto first = rank.make_group({0, 1, 2}, "first"), second = rank.make_group({0, 1, 2}, "second");
        float x = 1;
        const comm::AllReducePiece piece = {&x, &x, 1};
        if (rank.rank() != 1) first->wait(first->all_reduce({&piece, 1}, {}));
        second->wait(second->barrier());
      },
      2);
  for (const Caught& error : errors) {
    EXPECT_TRUE(error.code == code(Code::kInvalidArgument) || error.code == code(Code::kTimeout))
        << error.message;
    EXPECT_TRUE(contains(error.message, "rank 1")) << error.message;
    EXPECT_TRUE(contains(error.message, "of group 'first'") || contains(error.message, "of group 'second'"))
        << error.message;
  }
}

TEST_P(Failures, AbortFromAnyThreadReachesWaitingAndLaterCallsOfAll) {
  const auto errors = run(3, [](comm::RankComm& rank) {
    const auto group = world_group(rank);
    group->wait(group->barrier());
    if (rank.rank() == 1) {
      std::thread([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(30));
        rank.abort(Error(Code::kNumeric, "the loss is not a number"));
      }).join();
    }
    try {
      group->wait(group->barrier());
      ADD_FAILURE() << "rank " << rank.rank() << " was not told";
    } catch (const Error& error) {
      EXPECT_EQ(error.message(), "rank 1: the loss is not a number");
    }
    group->wait(group->barrier());
  });
  for (const Caught& error : errors) {
    EXPECT_EQ(error.code, code(Code::kNumeric));
    EXPECT_EQ(error.message, "rank 1: the loss is not a number");
  }
}

TEST_P(Failures, AbortInTheMiddleOfLargeCallsLeavesNobodyReading) {
  const int64_t n = 400'000;
  std::barrier ready(4);
  const auto errors = run(4, [&](comm::RankComm& rank) {
    const auto group = world_group(rank);
    ready.arrive_and_wait();
    std::thread aborter;
    if (rank.rank() == 3) {
      aborter = std::thread([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(15));
        rank.abort(Error(Code::kCancelled, "enough"));
      });
    }
    try {
      for (;;) {  // each call has memory of its own, so that a sanitizer detects a late reader
        std::vector<float> x(static_cast<size_t>(n), 1.0f);
        const comm::AllReducePiece piece = {x.data(), x.data(), n};
        group->wait(group->all_reduce({&piece, 1}, {}));
      }
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kCancelled) << error.message();
    }
    if (aborter.joinable()) aborter.join();
  });
  for (const Caught& error : errors) EXPECT_EQ(error.code, 0) << error.message;
}

TEST_P(Failures, BadArgumentsAreRefusedWhereTheyAreMadeAndBreakNothing) {
  expect_world(GetParam().make(6), [](comm::RankComm& rank) {
    const auto group = world_group(rank);
    float x[6] = {};
    const comm::AllReducePiece null_out = {nullptr, x, 2}, negative = {x, x, -1}, fine = {x, x, 1};
    const auto refused = [&](const auto& call, const char* part) {
      try {
        call();
        ADD_FAILURE() << "accepted: " << part;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Code::kInvalidArgument);
        EXPECT_TRUE(contains(error.message(), part)) << error.message();
      }
    };
    refused([&] { group->all_reduce({&null_out, 1}, {}); }, "out of array 0 is NULL");
    refused([&] { group->all_reduce({&negative, 1}, {}); }, "has size -1");
    refused([&] { group->all_reduce({&fine, 1}, {.wire = DType::kI32}); }, "wire I32");
    refused([&] { group->all_reduce({&fine, 1}, {.sum_group = 4}); }, "sum_group 4 does not divide");
    refused([&] { group->all_reduce({&fine, 1}, {.tree = true}); }, "power of two");
    refused([&] { group->broadcast(x, 4, 6); }, "member 6");
    refused([&] { group->send(x, 4, rank.rank()); }, "this rank itself");
    refused([&] { group->wait(comm::Work{1000}); }, "no call with ticket 1000");
    refused([&] { rank.make_group({(rank.rank() + 1) % 6}, "others"); }, "is not a member");
    group->wait(group->barrier());
  });
}

INSTANTIATE_TEST_SUITE_P(Transport, Failures, ::testing::ValuesIn(world_kinds()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace failures_test
}  // namespace hawser::testing
