// Compares the ledger's wire bytes with the kernel's count at the sockets, to the byte; and checks that exact
// sums of integers send no more than the plan's closed form plus headers.
#include <gtest/gtest.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <bit>
#include <filesystem>
#include <numeric>

#include "engine/comm/point_to_point/tag.h"
#include "tests/comm/tcp_worlds.h"
#include "tests/harness/spawn_ranks.h"

namespace hawser::testing {
namespace {

using comm::Operation, comm::Traffic;

int32_t port_of(const sockaddr_in& name) { return ntohs(name.sin_port); }

/// Returns the bytes that this process's TCP sockets have sent, without those from and to `port`, which ranks
/// use to watch each other; -1 if this kernel does not count them.
int64_t carried(int32_t port) {
  int64_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(entry.path().filename().string());
    sockaddr_in own{}, peer{};
    socklen_t own_size = sizeof(own), peer_size = sizeof(peer);
    if (getsockname(fd, reinterpret_cast<sockaddr*>(&own), &own_size) != 0 || own.sin_family != AF_INET ||
        getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &peer_size) != 0 || port_of(own) == port ||
        port_of(peer) == port) {
      continue;
    }
    tcp_info info{};
    socklen_t size = sizeof(info);
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 ||
        size < offsetof(tcp_info, tcpi_bytes_sent) + sizeof(info.tcpi_bytes_sent)) {
      return -1;
    }
    bytes += static_cast<int64_t>(info.tcpi_bytes_sent - info.tcpi_bytes_retrans);
  }
  return bytes;
}

/// Creates `ranks` ranks over TCP in this process, each on a thread of its own.
class World {
 public:
  explicit World(int32_t ranks) : address_(free_address()), comms_(tcp_world_at(address_, ranks)) {
    for (int32_t r = 0; r < ranks; ++r) ends_.push_back(comms_[r]->connect(r, test_comm_options()));
    groups_.resize(ends_.size());
    std::vector<std::thread> threads;
    for (size_t r = 0; r < ends_.size(); ++r)
      threads.emplace_back([this, r] { groups_[r] = world_group(*ends_[r]); });
    for (std::thread& thread : threads) thread.join();
  }
  int32_t size() const { return static_cast<int32_t>(ends_.size()); }
  void run(const std::function<void(comm::ProcessGroup&)>& fn) {
    std::vector<std::thread> threads;
    for (const auto& group : groups_) threads.emplace_back([&] { fn(*group); });
    for (std::thread& thread : threads) thread.join();
  }
  Traffic::Entry entry(int32_t rank, Operation operation) const {
    return groups_[rank]->traffic().by_operation[static_cast<size_t>(operation)];
  }
  int64_t wire_bytes() const {
    int64_t bytes = 0;
    for (const auto& group : groups_) {
      for (const Traffic::Entry& entry : group->traffic().by_operation) bytes += entry.wire_bytes;
    }
    return bytes;
  }
  int64_t carried() const { return testing::carried(std::stoi(address_.substr(address_.find(':') + 1))); }

 private:
  const std::string address_;
  std::vector<std::shared_ptr<comm::Comm>> comms_;
  std::vector<std::unique_ptr<comm::RankComm>> ends_;
  std::vector<std::unique_ptr<comm::ProcessGroup>> groups_;
};

/// Runs each operation, with sizes that are not divisible by the number of ranks.
void all_operations(comm::ProcessGroup& group) {
  constexpr int64_t kElements = 10'007;
  const int32_t n = group.size(), next = (group.rank() + 1) % n, before = (group.rank() + n - 1) % n;
  std::vector<float> x(static_cast<size_t>(n) * kElements), y(x.size());
  std::vector<int64_t> counts(257);
  const comm::GatherPiece gather = {x.data(), y.data(), kElements};
  const comm::ReducePiece reduce = {y.data(), x.data(), kElements};
  const comm::AllReducePiece all_reduce = {x.data(), y.data(), kElements};
  const comm::Reduction narrow{.wire = DType::kBf16, .round_to = DType::kBf16};
  group.wait(group.all_gather({&gather, 1}, DType::kF32));
  group.wait(group.reduce_scatter({&reduce, 1}, {}));
  group.wait(group.all_reduce({&all_reduce, 1}, narrow));
  group.wait(group.all_reduce_i64(counts.data(), std::ssize(counts)));
  group.wait(group.all_to_all(x.data(), y.data(), 1001));
  group.wait(group.broadcast(x.data(), 12'345, 1));
  const auto send = [&] { return group.send(y.data(), 777, next); };
  const auto recv = [&] { return group.recv(x.data(), 777, before); };
  const comm::Work first = group.rank() == 0 ? send() : recv();
  const comm::Work second = group.rank() == 0 ? recv() : send();
  group.wait(first), group.wait(second);
  group.wait(group.barrier());
}

TEST(WireBytes, AreWhatTheSocketsCarried) {
  for (const int32_t ranks : {2, 3, 5}) {
    World world(ranks);
    const int64_t before = world.carried();
    if (before < 0) GTEST_SKIP() << "this kernel does not count what sockets send";
    world.run(all_operations);
    EXPECT_GT(world.wire_bytes(), 0);
    EXPECT_EQ(world.carried() - before, world.wire_bytes()) << ranks << " ranks";
  }
}

/// No message precedes a call: a rank sends a tag once to each member to which it sends data, and nothing
/// else besides the data. A barrier takes log2 N tags from each member, a broadcast one tag for each
/// receiver.
TEST(WireBytes, AreTheDataAndOneTagForEachMemberItGoesTo) {
  constexpr int64_t kTag = sizeof(comm::Tag);
  for (const int32_t ranks : {2, 3, 5, 8}) {
    World world(ranks);
    world.run(all_operations);
    SCOPED_TRACE(::testing::Message() << ranks << " ranks");
    const int64_t others = ranks - 1, log2 = std::bit_width(static_cast<uint32_t>(others));
    int64_t broadcast = 0, numbers = 0;
    for (int32_t r = 0; r < ranks; ++r) {
      for (const Operation operation :
           {Operation::kAllGather, Operation::kReduceScatter, Operation::kAllToAll}) {
        const Traffic::Entry e = world.entry(r, operation);
        EXPECT_EQ(e.wire_bytes, e.bytes + others * kTag) << comm::operation_name(operation);
      }
      EXPECT_LE(world.entry(r, Operation::kAllReduce).wire_bytes,
                world.entry(r, Operation::kAllReduce).bytes + others * kTag);
      EXPECT_EQ(world.entry(r, Operation::kBarrier).wire_bytes, log2 * kTag);
      EXPECT_EQ(world.entry(r, Operation::kSend).wire_bytes, 777 + kTag);
      EXPECT_EQ(world.entry(r, Operation::kRecv).wire_bytes, 0);
      broadcast += world.entry(r, Operation::kBroadcast).wire_bytes;
      numbers = std::max(numbers, world.entry(r, Operation::kAllReduceI64).wire_bytes);
    }
    EXPECT_EQ(broadcast, others * (12'345 + kTag));
    EXPECT_LE(numbers, 3 * 257 * 8 + (log2 + 1) * kTag);
  }
}

/// Sums in two hops send tags only within the subgroup and to one member of each other subgroup. In f32 they
/// send no more bytes than direct sums. Narrow addends are sent narrow within a subgroup, but the subgroups'
/// sums as f32, so that they are not rounded. Addends and sums in records are both sent in records.
TEST(WireBytes, OfSumsInTwoHopsGrowWithTheRunAndTheRuns) {
  constexpr int64_t kTag = sizeof(comm::Tag);
  for (const auto& [ranks, run] : {std::pair{6, 2}, {6, 3}, {8, 2}, {8, 4}}) {
    for (const DType wire : {DType::kF32, DType::kBf16, DType::kI8Block, DType::kI4Block}) {
      SCOPED_TRACE(::testing::Message() << ranks << " ranks, runs of " << run << ", " << dtype_name(wire));
      World world(ranks);
      const int64_t shard = is_int_block(wire) ? 1024 : 1003;  // whole records, so that all parts are equal
      world.run([&, run = run, ranks = ranks](comm::ProcessGroup& group) {
        std::vector<float> x(static_cast<size_t>(ranks * shard), 1.0f), y(x.size());
        const comm::ReducePiece reduce = {y.data(), x.data(), shard};
        const comm::AllReducePiece all_reduce = {y.data(), x.data(), std::ssize(x)};
        group.wait(group.reduce_scatter({&reduce, 1}, {.wire = wire, .sum_group = run}));
        group.wait(group.all_reduce({&all_reduce, 1}, {.wire = wire, .sum_group = run}));
      });
      const int64_t others = ranks / run - 1, partners = run - 1 + others;
      const int64_t wider = is_int_block(wire) ? 0 : others * shard * (4 - dtype_bytes(wire));
      for (int32_t r = 0; r < ranks; ++r)
        for (const Operation operation : {Operation::kReduceScatter, Operation::kAllReduce}) {
          const Traffic::Entry e = world.entry(r, operation);
          EXPECT_EQ(e.wire_bytes, e.bytes + wider + partners * kTag) << comm::operation_name(operation);
        }
    }
  }
}

/// With more than eight members a gather takes two hops too: with 12 in rows of 3, each member communicates
/// with 2 + 3 other members.
TEST(WireBytes, OfGathersAmongManyGrowWithTheRunAndTheRuns) {
  constexpr int64_t kElements = 1003;
  for (const auto& [ranks, partners] : {std::pair{9, 4}, {11, 10}, {12, 5}}) {
    World world(ranks);
    world.run([&, ranks = ranks](comm::ProcessGroup& group) {
      std::vector<int32_t> full(static_cast<size_t>(ranks * kElements), -1), shard(kElements, group.rank());
      const comm::GatherPiece piece = {full.data(), shard.data(), kElements};
      group.wait(group.all_gather({&piece, 1}, DType::kF32));
      for (int64_t i = 0; i < std::ssize(full); ++i) ASSERT_EQ(full[i], i / kElements) << i;
    });
    for (int32_t r = 0; r < ranks; ++r) {
      const Traffic::Entry e = world.entry(r, Operation::kAllGather);
      EXPECT_EQ(e.wire_bytes, e.bytes + partners * int64_t{sizeof(comm::Tag)}) << ranks << " ranks";
    }
  }
}

/// Sums are exact for every number of members and numbers; one `count` exceeds the staging buffer.
TEST(WireBytes, SumsOfIntegersAreExactAndSendWhatTheClosedFormSays) {
  for (const int32_t ranks : {2, 3, 4, 6, 8}) {
    World world(ranks);
    for (const int64_t count : {int64_t{1}, int64_t{3}, int64_t{1024}, int64_t{ranks == 2 ? 1'100'003 : 5}}) {
      SCOPED_TRACE(::testing::Message() << ranks << " ranks, " << count << " numbers");
      const Traffic::Entry before = world.entry(0, Operation::kAllReduceI64);
      world.run([&](comm::ProcessGroup& group) {
        std::vector<int64_t> numbers(static_cast<size_t>(count));
        constexpr int64_t kHigh = int64_t{1} << 58;  // a double would round this
        for (int64_t i = 0; i < count; ++i) numbers[i] = kHigh * group.rank() + i * 7;
        group.wait(group.all_reduce_i64(numbers.data(), count));
        const int64_t high = kHigh * (ranks * (ranks - 1) / 2);
        for (int64_t i = 0; i < count; i += 1 + count / 100) EXPECT_EQ(numbers[i], high + i * 7 * ranks);
      });
      const Traffic::Entry after = world.entry(0, Operation::kAllReduceI64);
      // Each member sends at most one tag to each member with which it communicates: log2 of all and one
      // more.
      const int64_t tags =
          (std::bit_width(static_cast<uint32_t>(ranks - 1)) + 1) * int64_t{sizeof(comm::Tag)};
      const int64_t sent = after.wire_bytes - before.wire_bytes - tags, whole = count * 8;
      const bool adopts =
          (ranks & (ranks - 1)) != 0;  // then it also sends the sum to a member beyond the power of two
      EXPECT_LE(sent, after.bytes - before.bytes + (adopts ? whole : 0));
      EXPECT_LE(sent, (adopts ? 3 : 2) * whole) << "it was " << ranks - 1 << " times the array";
    }
  }
}

}  // namespace
}  // namespace hawser::testing
