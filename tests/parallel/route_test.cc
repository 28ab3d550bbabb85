// Tests how the bytes of collectives divide among the levels of a network, against counts made by hand, and
// against the messages of every pair of ranks.
#include "engine/parallel/route.h"

#include <gtest/gtest.h>

#include <numeric>

namespace hawser::testing {
namespace route_test {

using comm::Operation;
using parallel::bytes_by_hop;
using parallel::HopKind;
using parallel::LevelBytes;
using parallel::Route;
using parallel::route_of;
using parallel::Sent;
using parallel::Topology;
using parallel::TransferGroup;

std::vector<int64_t> ranks(int64_t count, int64_t stride = 1, int64_t first = 0) {
  std::vector<int64_t> members;
  for (int64_t i = 0; i < count; ++i) members.push_back(first + i * stride);
  return members;
}

Sent sent(Operation operation, int64_t sum_group = 0) {
  return {TransferGroup::kShard, operation, 0, sum_group};
}

std::vector<LevelBytes> split(Operation operation, const std::vector<int64_t>& members,
                              const Topology& topology, int64_t bytes, int64_t sum_group = 0) {
  const Route route = route_of(sent(operation, sum_group), members, topology);
  return bytes_by_hop(route, bytes);
}

using Split = std::vector<LevelBytes>;
const Topology kNodesOf8{{8}, true}, kHosts{{8}, false};

TEST(Route, SumsGoToEachMember) {
  EXPECT_EQ(split(Operation::kReduceScatter, ranks(16), kNodesOf8, 150), (Split{{70, 80}}));
  EXPECT_EQ(split(Operation::kReduceScatter, ranks(8), kNodesOf8, 70), (Split{{70, 0}}));
  EXPECT_EQ(split(Operation::kReduceScatter, ranks(4, 8), kNodesOf8, 30), (Split{{0, 30}}));
  EXPECT_EQ(split(Operation::kReduceScatter, ranks(8, 2), kNodesOf8, 70), (Split{{30, 40}}));
}

TEST(Route, SumGroupsSendInsideAndThenAcross) {
  // Each of 7 mates gets the parts of 2 owners, then one far member gets one part.
  EXPECT_EQ(split(Operation::kReduceScatter, ranks(16), kNodesOf8, 150, 8), (Split{{140, 0}, {0, 10}}));
  // Groups of 4 lie within a node; half of the others of the same seat do too.
  EXPECT_EQ(split(Operation::kReduceScatter, ranks(16), kNodesOf8, 150, 4), (Split{{120, 0}, {10, 20}}));
  // A group of all, or of one, is no group.
  EXPECT_EQ(split(Operation::kReduceScatter, ranks(16), kNodesOf8, 150, 16), (Split{{70, 80}}));
  EXPECT_EQ(split(Operation::kReduceScatter, ranks(16), kNodesOf8, 150, 1), (Split{{70, 80}}));
}

TEST(Route, GathersGoAroundRingsOrToEach) {
  EXPECT_EQ(split(Operation::kAllGather, ranks(16), kNodesOf8, 160), (Split{{140, 20}}));
  EXPECT_EQ(split(Operation::kAllGather, ranks(16), kHosts, 150), (Split{{70, 80}}));
  EXPECT_EQ(split(Operation::kAllGather, ranks(4, 8), kNodesOf8, 30), (Split{{0, 30}}));
  EXPECT_EQ(split(Operation::kAllGather, ranks(8), kNodesOf8, 70), (Split{{70, 0}}));
  const Topology three{{4, 16}, true};
  EXPECT_EQ(split(Operation::kAllGather, ranks(32), three, 160), (Split{{120, 30, 10}}));
}

TEST(Route, AllReducesSumAndGather) {
  EXPECT_EQ(split(Operation::kAllReduce, ranks(16), kNodesOf8, 2400, 8),
            (Split{{1120, 0}, {0, 80}, {1050, 150}}));
  EXPECT_EQ(split(Operation::kAllReduceI64, ranks(4), kHosts, 60), (Split{{30, 0}, {30, 0}}));
}

TEST(Route, MessagesGoToOneRank) {
  EXPECT_EQ(split(Operation::kSend, {7, 8}, kNodesOf8, 5), (Split{{0, 5}}));
  EXPECT_EQ(split(Operation::kSend, {6, 7}, kNodesOf8, 5), (Split{{5, 0}}));
  EXPECT_EQ(split(Operation::kSend, {0, 8}, kNodesOf8, 5), (Split{{0, 5}}));
  EXPECT_EQ(split(Operation::kSend, ranks(8), kNodesOf8, 5), (Split{{5, 0}}));   // a ring in a node
  EXPECT_EQ(split(Operation::kSend, ranks(16), kNodesOf8, 5), (Split{{0, 5}}));  // one of its ends leaves it
  EXPECT_EQ(split(Operation::kAllToAll, ranks(16), kNodesOf8, 150), (Split{{70, 80}}));
}

TEST(Route, OneRankSendsNothing) {
  EXPECT_TRUE(route_of(sent(Operation::kAllReduce), ranks(1), kNodesOf8).hops.empty());
  EXPECT_TRUE(bytes_by_hop(Route(), 0).empty());
}

/// Groups that lie unevenly: the member with most far peers decides.
TEST(Route, TheMemberWithMostFarPeersDecides) {
  EXPECT_EQ(split(Operation::kReduceScatter, {6, 7, 8}, kNodesOf8, 20), (Split{{0, 20}}));
  EXPECT_EQ(split(Operation::kReduceScatter, {5, 6, 7, 8}, kNodesOf8, 30), (Split{{0, 30}}));
}

/// The total is the ledger's, whatever the division leaves over.
TEST(Route, NoByteIsLost) {
  for (const Operation o : {Operation::kReduceScatter, Operation::kAllGather, Operation::kAllReduce,
                            Operation::kAllToAll, Operation::kSend})
    for (const int64_t count : {2, 3, 6, 12, 24, 1000})
      for (const int64_t group : {0, 2, 3})
        for (const Topology& topology :
             {Topology{{}, true}, Topology{{2}, true}, Topology{{4, 8}, false}, Topology{{4, 8}, true}})
          for (const int64_t bytes : {int64_t{0}, int64_t{1}, int64_t{997}, int64_t{3000000000000000001}}) {
            if (group > 0 && count % group != 0) continue;
            int64_t all = 0;
            for (const LevelBytes& hop : split(o, ranks(count, 2), topology, bytes, group)) {
              all += std::accumulate(hop.begin(), hop.end(), int64_t{0});
              for (const int64_t part : hop) EXPECT_GE(part, 0);
            }
            EXPECT_EQ(all, bytes) << count << " " << group;
          }
}

}  // namespace route_test
}  // namespace hawser::testing
