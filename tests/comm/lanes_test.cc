// Tests of lanes, as pipelines use them, over every transport.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <numeric>
#include <thread>

#include "tests/comm/worlds.h"
#include "tests/harness/spawn_ranks.h"

namespace hawser::testing {
namespace lanes_test {

using comm::Lane;
using Group = std::unique_ptr<comm::ProcessGroup>;

constexpr size_t kNumbers = 1 << 17;  // more than any transport accepts without a receiver

class Lanes : public ::testing::TestWithParam<WorldKind> {
 protected:
  std::vector<std::shared_ptr<comm::Comm>> world(int32_t ranks) const { return GetParam().make(ranks); }
};

std::vector<int64_t> numbers(int64_t first) {
  std::vector<int64_t> v(kNumbers);
  std::iota(v.begin(), v.end(), first);
  return v;
}
int64_t bytes_of(const std::vector<int64_t>& v) { return static_cast<int64_t>(v.size() * sizeof(int64_t)); }

TEST_P(Lanes, ASendThatNobodyReceivesYetHoldsUpItsOwnLaneOnly) {
  expect_world(world(3), [](comm::RankComm& rank) {
    const auto data = world_group(rank);
    const Group pair =
        rank.rank() < 2 ? rank.make_group({0, 1}, "0>1", Lane{"activations 0>1", false}) : nullptr;
    std::vector<int64_t> sent = numbers(7), received(kNumbers);
    comm::Work passed;
    const auto pass = [&] {
      if (rank.rank() == 0) passed = pair->send(sent.data(), bytes_of(sent), 1);
    };
    if (rank.has_lanes()) pass();
    for (int i = 0; i < 3; ++i) {
      int64_t sum = rank.rank();
      data->wait(data->all_reduce_i64(&sum, 1));
      EXPECT_EQ(sum, 3);
    }
    if (!rank.has_lanes()) pass();  // here calls complete in the order of issue
    if (rank.rank() == 1) passed = pair->recv(received.data(), bytes_of(received), 0);
    if (pair) pair->wait(passed);
    if (rank.rank() == 1) {
      EXPECT_EQ(received, sent);
    }
    data->wait(data->barrier());
  });
}

/// The issuer needs these exchanges at once, while calls of the main lane are still in flight.
TEST_P(Lanes, CallsAtOnceAreDoneWhenIssued) {
  if (std::string(GetParam().name).starts_with("device"))
    GTEST_SKIP() << "a device's calls wait for its stream";
  expect_world(world(3), [](comm::RankComm& rank) {
    const Group data = rank.make_group({0, 1, 2}, "data");
    const Group block = rank.make_group({0, 1, 2}, "block", {.name = "block", .at_once = true});
    for (int32_t i = 0; i < 20; ++i) {
      int64_t counted = 1;
      const comm::Work beside = data->all_reduce_i64(&counted, 1);
      std::vector<float> sum(1000, static_cast<float>(rank.rank() + i));
      const comm::AllReducePiece piece{sum.data(), sum.data(), 1000};
      const comm::Work work = block->all_reduce({&piece, 1}, {});
      if (rank.has_lanes()) {
        EXPECT_TRUE(block->done(work));
      }
      block->wait(work);
      EXPECT_EQ(sum, std::vector<float>(1000, static_cast<float>(3 * i + 3)));
      data->wait(beside);
      EXPECT_EQ(counted, 3);
    }
  });
}

/// There are four lanes between two neighbours: in each direction, activations and gradients.
TEST_P(Lanes, NeighboursSendToEachOtherBeforeEitherReceives) {
  expect_world(world(4), [](comm::RankComm& rank) {
    struct Way {
      Group group;
      bool out = false;
      int64_t mark = 0;
      std::vector<int64_t> values;
      comm::Work work;
    };
    std::vector<Way> ways;
    for (int32_t left = 0; left + 1 < rank.world_size(); ++left) {
      for (int32_t kind = 0; kind < 2; ++kind) {
        for (int32_t from = 0; from < 2; ++from) {
          const int64_t mark = (left * 2 + kind) * 2 + from;
          const std::string name = "way " + std::to_string(mark);
          if (rank.rank() != left && rank.rank() != left + 1) continue;
          Way way{rank.make_group({left, left + 1}, name, Lane{name, false}),
                  rank.rank() == left + from,
                  mark,
                  {},
                  {}};
          way.values = way.out ? numbers(mark) : std::vector<int64_t>(kNumbers);
          ways.push_back(std::move(way));
        }
      }
    }
    const auto issue = [](Way& way) {
      const int32_t peer = 1 - way.group->rank();
      void* const data = way.values.data();
      way.work = way.out ? way.group->send(data, bytes_of(way.values), peer)
                         : way.group->recv(data, bytes_of(way.values), peer);
    };
    if (rank.has_lanes()) {
      for (Way& way : ways)
        if (way.out) issue(way);
      for (Way& way : ways)
        if (!way.out) issue(way);
    } else {
      for (Way& way : ways) issue(way);
    }
    for (Way& way : ways) way.group->wait(way.work);
    for (const Way& way : ways) EXPECT_EQ(way.values, numbers(way.mark)) << way.mark;
  });
}

TEST_P(Lanes, AnErrorEndsTheCallsOfAllLanes) {
  const auto errors = run_world(
      world(3),
      [](comm::RankComm& rank) {
        const auto data = world_group(rank);
        const auto side = rank.make_group({0, 1, 2}, "side", Lane{"side", false, 1e9});
        data->wait(data->barrier());
        if (rank.rank() == 1) {
          rank.abort(Error(Code::kIo, "the disk is full"));
          throw Error(Code::kIo, "the disk is full");
        }
        int64_t x = 0;
        const comm::Work first = rank.has_lanes() ? side->recv(&x, 8, 1) : comm::Work{};
        EXPECT_EQ(caught([&] {
                    try {
                      data->wait(data->barrier());
                    } catch (...) {
                      return std::current_exception();
                    }
                    return std::exception_ptr();
                  }())
                      .code,
                  static_cast<int32_t>(Code::kIo));
        side->wait(rank.has_lanes() ? first : side->barrier());
      },
      test_comm_options());
  for (const auto& error : errors) {
    EXPECT_EQ(caught(error).code, static_cast<int32_t>(Code::kIo));
    EXPECT_NE(caught(error).message.find("the disk is full"), std::string::npos) << caught(error).message;
  }
}

TEST_P(Lanes, AGroupKnowsItsLane) {
  expect_world(world(2), [](comm::RankComm& rank) {
    const auto data = world_group(rank);
    const auto side = rank.make_group({0, 1}, "side", Lane{"saves", false});
    const auto again = rank.make_group({0, 1}, "again", Lane{"saves", false});
    for (const comm::GroupName& group : rank.group_names()) {
      const bool beside = group.name.starts_with("side") || group.name.starts_with("again");
      EXPECT_EQ(group.lane, beside ? "saves" : "main") << group.name;
    }
    const auto refused = [&](const auto& call, const char* part) {
      try {
        call();
        ADD_FAILURE() << "accepted: " << part;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Code::kInvalidArgument);
        EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
      }
    };
    float x = 1;
    const comm::AllReducePiece piece{&x, &x, 1};
    refused([&] { side->all_reduce({&piece, 1}, {}); }, "made without sums");
    const comm::Work work = side->barrier();
    if (rank.has_lanes()) refused([&] { data->wait(work); }, "wait on that lane");
    again->wait(work);  // a group of the same lane may wait
    std::vector<comm::Record> records(2048);
    records.resize(static_cast<size_t>(rank.recall(records.data(), 2048)));
    const auto names = rank.group_names();
    EXPECT_TRUE(std::any_of(records.begin(), records.end(), [&](const comm::Record& r) {
      return names[static_cast<size_t>(r.group)].name == "side" && r.state == comm::CallState::kFinished;
    }));
  });
}

TEST_P(Lanes, SleepWhileNothingIsAsked) {
  const auto cpu_seconds = [] {
    rusage use{};
    getrusage(RUSAGE_SELF, &use);
    return static_cast<double>(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
           1e-6 * static_cast<double>(use.ru_utime.tv_usec + use.ru_stime.tv_usec);
  };
  expect_world(world(2), [&](comm::RankComm& rank) {
    std::vector<Group> groups;
    for (int i = 0; i < 16; ++i) {
      groups.push_back(rank.make_group({0, 1}, "group", Lane{"lane " + std::to_string(i), false}));
      groups.back()->wait(groups.back()->barrier());
    }
    const double before = cpu_seconds();
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    EXPECT_LT(cpu_seconds() - before, 0.25);
  });
}

INSTANTIATE_TEST_SUITE_P(Transport, Lanes, ::testing::ValuesIn(world_kinds()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace lanes_test
}  // namespace hawser::testing
