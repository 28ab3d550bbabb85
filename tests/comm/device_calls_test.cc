// Tests of calls between devices: hosts exchange nothing before them, and detect a wrong call afterwards.
#include <gtest/gtest.h>

#include <barrier>

#include "engine/comm/device/call_trail.h"
#include "tests/comm/device_rank.h"
#include "tests/comm/operations.h"
#include "tests/comm/worlds.h"
#include "tests/harness/spawn_ranks.h"

namespace hawser::testing {
namespace device_calls_test {

using comm::Operation, comm::ProcessGroup;

class DeviceCalls : public ::testing::TestWithParam<WorldKind> {};

/// Runs all operations in memory of this rank, which contains zeros.
void run_all(ProcessGroup& g) {
  const int64_t n = 24;
  std::vector<float> a(static_cast<size_t>(n * g.size())), b = a;
  const comm::GatherPiece gather = {a.data(), b.data(), n};
  g.wait(g.all_gather({&gather, 1}, DType::kF32));
  const comm::ReducePiece scatter = {a.data(), b.data(), n};
  g.wait(g.reduce_scatter({&scatter, 1}, {.wire = DType::kBf16}));
  const comm::AllReducePiece reduce = {a.data(), b.data(), n};
  g.wait(g.all_reduce({&reduce, 1}, {}));
  g.wait(g.all_to_all(a.data(), b.data(), 4 * n));
  g.wait(g.broadcast(a.data(), 4 * n, 1));
  const int32_t next = (g.rank() + 1) % g.size(), before = (g.rank() + g.size() - 1) % g.size();
  for (const bool sends : {g.rank() % 2 == 0, g.rank() % 2 != 0})
    g.wait(sends ? g.send(b.data(), 8, next) : g.recv(a.data(), 8, before));
}

/// For transports whose hosts exchange messages, the ledger counts their bytes.
TEST_P(DeviceCalls, TakeNoMessageOfTheHosts) {
  expect_world(GetParam().make(2), [](comm::RankComm& rank) {
    const auto group = world_group(rank);
    for (int i = 0; i < 5; ++i) run_all(*group);
    for (const Operation operation :
         {Operation::kAllGather, Operation::kReduceScatter, Operation::kAllReduce, Operation::kAllToAll,
          Operation::kBroadcast, Operation::kSend, Operation::kRecv}) {
      const comm::Traffic::Entry entry = group->traffic().by_operation[static_cast<size_t>(operation)];
      EXPECT_EQ(entry.calls, 5) << operation_name(operation);
      EXPECT_EQ(entry.wire_bytes, 0) << operation_name(operation);
    }
    int64_t number = 1;
    group->wait(group->all_reduce_i64(&number, 1));
    const auto numbers = static_cast<size_t>(Operation::kAllReduceI64);
    const bool counts = std::string(GetParam().name) != "device";
    EXPECT_EQ(group->traffic().by_operation[numbers].wire_bytes > 0, counts);
  });
}

/// A host submits the call to its device and continues, however late the other ranks are.
TEST_P(DeviceCalls, DoNotWaitForOtherHosts) {
  std::barrier given(2);
  expect_world(GetParam().make(2), [&](comm::RankComm& rank) {
    const auto group = world_group(rank);
    float x[2] = {1, 2};
    const comm::AllReducePiece piece = {x, x, 2};
    if (rank.rank() == 1) given.arrive_and_wait();
    const comm::Work work = group->all_reduce({&piece, 1}, {});
    group->follow(work);
    if (rank.rank() == 0) given.arrive_and_wait();
    group->wait(work);
    EXPECT_EQ(x[1], 4);
  });
}

uint64_t mark_of(comm::RankComm& rank) { return dynamic_cast<DeviceRank&>(rank).trail().mark(); }

/// Runs `calls(group)` on four ranks and returns the resulting hashes of their trails, by rank.
std::vector<uint64_t> marks(const WorldKind& kind, const std::function<void(ProcessGroup&)>& calls) {
  std::vector<uint64_t> marks(4);
  expect_world(kind.make(4), [&](comm::RankComm& rank) {
    const auto group = world_group(rank);
    calls(*group);
    marks[static_cast<size_t>(rank.rank())] = mark_of(rank);
  });
  return marks;
}

TEST_P(DeviceCalls, LeaveTheSameMarkOnRanksThatMakeTheSame) {
  const std::vector<uint64_t> once = marks(GetParam(), run_all);
  EXPECT_EQ(once, std::vector<uint64_t>(4, once[0]));
  const auto twice = marks(GetParam(), [](ProcessGroup& g) { run_all(g), run_all(g); });
  EXPECT_EQ(twice, std::vector<uint64_t>(4, twice[0]));
  EXPECT_NE(once[0], twice[0]);
}

template <class Fn>
std::vector<Caught> all_caught(const std::vector<std::shared_ptr<comm::Comm>>& world, const Fn& fn,
                               const comm::CommOptions& options) {
  std::vector<Caught> all;
  for (const auto& error : run_world(world, fn, options)) all.push_back(caught(error));
  return all;
}

/// Runs `before` equal calls, then one in which rank 2 makes another call, which no device detects, then
/// `after` equal calls.
std::vector<Caught> with_a_wrong_call(const WorldKind& kind, int before, int after) {
  const auto fn = [&](comm::RankComm& rank) {
    const auto hosts = dynamic_cast<DeviceRank&>(rank).make_host_group({0, 1, 2, 3}, "hosts");
    const auto group = world_group(rank);
    float full[4] = {}, shard = static_cast<float>(rank.rank());
    const comm::GatherPiece piece = {full, &shard, 1};
    const auto gather = [&](DType type) { group->wait(group->all_gather({&piece, 1}, type)); };
    for (int i = 0; i < before; ++i) gather(DType::kF32);
    gather(rank.rank() == 2 ? DType::kI32 : DType::kF32);
    EXPECT_EQ(full[3], 3);
    for (int i = 0; i < after; ++i) gather(DType::kF32);
    dynamic_cast<DeviceRank&>(rank).trail().find_difference(*hosts);
  };
  return all_caught(kind.make(4), fn, test_comm_options());
}

void expect_all(const std::vector<Caught>& errors, Code code, const std::vector<std::string>& words) {
  for (const Caught& error : errors) {
    EXPECT_EQ(error.code, static_cast<int32_t>(code));
    for (const std::string& w : words) EXPECT_NE(error.message.find(w), std::string::npos) << error.message;
  }
}

TEST_P(DeviceCalls, AreSearchedForTheFirstThatDiffers) {
  for (const int before : {0, 7, 1200})
    expect_all(with_a_wrong_call(GetParam(), before, 3), Code::kInvalidArgument,
               {"call " + std::to_string(before) + " of the devices differs",
                "rank 0 calls all_gather of 1 arrays, 1 elements of F32 per member (call " +
                    std::to_string(before) + " of group 'world')",
                "rank 2 calls all_gather of 1 arrays, 1 elements of I32 per member"});
  expect_all(with_a_wrong_call(GetParam(), 5, 1100), Code::kInvalidArgument,
             {"rank 0 and rank 2 gave their devices different calls, more than 1024 calls ago"});
}

/// The devices fail, and the hosts find out which rank made which call.
TEST_P(DeviceCalls, ThatFailAreExplainedByTheHosts) {
  comm::CommOptions options = test_comm_options();
  options.timeout_seconds = 2;
  const auto fn = [](comm::RankComm& rank) {
    const auto group = world_group(rank);
    group->wait(group->barrier());  // all are connected
    std::vector<float> full(16), shard(4);
    const comm::GatherPiece piece = {full.data(), shard.data(), rank.rank() == 1 ? 3 : 4};
    group->wait(group->all_gather({&piece, 1}, DType::kF32));
  };
  expect_all(all_caught(GetParam().make(3), fn, options), Code::kInvalidArgument,
             {"call 1 of group 'world' differs", "all_gather of 1 arrays, 4 elements",
              "rank 1 calls all_gather of 1 arrays, 3 elements"});
}

TEST_P(DeviceCalls, BetweenTwoNameBothWhenTheyFail) {
  const auto fn = [](comm::RankComm& rank) {
    const auto group = world_group(rank);
    group->wait(group->barrier());  // all are connected
    char x[16] = {};
    group->wait(rank.rank() == 0 ? group->send(x, 8, 1) : group->recv(x, 9, 0));
    group->wait(group->barrier());  // a send may complete before its receiver compares sizes
  };
  const auto errors = all_caught(GetParam().make(2), fn, test_comm_options());
  expect_all(errors, Code::kUnavailable, {"disagree about bytes"});
  for (const Caught& error : errors) {  // the error is that of whichever side detects it first
    const bool receiver =
        error.message.find("recv 0 of group 'world' on rank 1 with rank 0") != std::string::npos;
    const bool sender =
        error.message.find("send 0 of group 'world' on rank 0 with rank 1") != std::string::npos;
    EXPECT_TRUE(receiver || sender) << error.message;
  }
}

/// Some members may have received their data and be at another call by then.
TEST_P(DeviceCalls, ThatFailOnSomeRanksEndAllAndNameTheirGroup) {
  comm::CommOptions options = test_comm_options();
  options.timeout_seconds = 2;
  const auto fn = [](comm::RankComm& rank) {
    const auto group = world_group(rank);
    group->wait(group->barrier());  // all are connected
    char in[16] = {}, out[16] = {};
    const std::vector<int64_t> ones(3, 1), wrong = {1, 1, 2};
    group->wait(group->all_to_all_v(out, ones, in, rank.rank() == 1 ? wrong : ones));
    group->wait(group->barrier());
  };
  for (const auto& error : run_world(GetParam().make(3), fn, options)) {
    const Caught what = caught(error);
    EXPECT_NE(what.code, 0);
    EXPECT_NE(what.message.find("of group 'world'"), std::string::npos) << what.message;
  }
}

INSTANTIATE_TEST_SUITE_P(Transport, DeviceCalls, ::testing::ValuesIn(world_kinds()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace device_calls_test
}  // namespace hawser::testing
