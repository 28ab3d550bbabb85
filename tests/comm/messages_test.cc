// Tests the number of messages that sums take among many members, and that results do not depend on the route
// of the messages.
#include <gtest/gtest.h>

#include <atomic>

#include "tests/comm/serial_reference.h"
#include "tests/comm/worlds.h"
#include "tests/harness/spawn_ranks.h"

namespace hawser::testing {
namespace messages_test {

/// Returns the number of messages that all ranks send for an all_reduce with `share` elements for each owner,
/// with tags, which a host program's transport sends separately. Also compares the results with the
/// reference.
int64_t messages_of_all_reduce(int32_t ranks, int64_t share, DType wire) {
  const comm::Reduction reduction{.wire = wire, .round_to = wire};
  std::vector<std::vector<float>> in;
  for (int32_t m = 0; m < ranks; ++m) in.push_back(member_values(ranks * share, m, 7));
  std::atomic<int64_t> messages{0};
  expect_world(counted_world(ranks, messages), [&](comm::RankComm& rank) {
    const auto group = world_group(rank);
    std::vector<float> out(static_cast<size_t>(ranks * share));
    const comm::AllReducePiece piece = {out.data(), in[static_cast<size_t>(rank.rank())].data(),
                                        std::ssize(out)};
    group->wait(group->all_reduce({&piece, 1}, reduction));
    std::vector<float> addends(static_cast<size_t>(ranks));
    for (size_t i = 0; i < out.size(); i += 7) {
      for (size_t m = 0; m < in.size(); ++m) addends[m] = in[m][i];
      ASSERT_TRUE(same_bits({out[i]}, {reference_sum(addends, reduction)})) << i;
    }
  });
  return messages;
}

/// Short messages cost more than their bytes, so their number must not grow with the square of the number of
/// members: short addends and all finished sums take two hops, along the rows and columns of a grid.
TEST(Messages, OfSumsAmongManyGrowWithRowsAndColumns) {
  for (const DType wire : {DType::kF32, DType::kBf16}) {
    for (const auto& [ranks, partners] : {std::pair{9, 4}, {12, 5}, {16, 6}}) {
      SCOPED_TRACE(::testing::Message() << ranks << " ranks, " << dtype_name(wire));
      EXPECT_EQ(messages_of_all_reduce(ranks, 100, wire), ranks * 3 * partners);  // tag, addends, sums
      EXPECT_EQ(messages_of_all_reduce(ranks, 5000, wire), ranks * (2 * (ranks - 1) + partners));
    }
  }
}

/// A grid of a prime number of members has one row, and few members do not need a grid.
TEST(Messages, OfSumsAmongFewOrAPrimeNumberGoToAllOthers) {
  for (const int32_t ranks : {4, 8, 11}) {
    SCOPED_TRACE(::testing::Message() << ranks << " ranks");
    EXPECT_EQ(messages_of_all_reduce(ranks, 100, DType::kF32), ranks * 3 * (ranks - 1));
  }
}

}  // namespace messages_test
}  // namespace hawser::testing
