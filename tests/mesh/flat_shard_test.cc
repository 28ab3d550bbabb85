// Tests flat shards of every small size, by counting: nothing is dropped, nothing is held twice, and there is
// no more padding than alignment needs.
#include "engine/mesh/flat_shard.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace hawser::mesh {
namespace flat_shard_test {

TEST(FlatShard, RangesFollowEachOtherFromTheFirstElementToTheLast) {
  for (int64_t parts = 1; parts <= 9; ++parts) {
    for (int64_t elements = 0; elements <= 1500; ++elements) {
      int64_t end = 0;
      for (int64_t i = 0; i < parts; ++i) {
        const FlatRange range = shard_range(elements, parts, i);
        ASSERT_EQ(range.begin, end) << elements << " elements, shard " << i << " of " << parts;
        ASSERT_LE(range.size(), shard_elements(elements, parts)) << elements << " in " << parts;
        if (range.size() > 0) {
          ASSERT_EQ(range.begin, i * shard_elements(elements, parts)) << elements << " in " << parts;
        }
        end = range.end;
      }
      ASSERT_EQ(end, elements) << "in " << parts << " shards";
    }
  }
}

TEST(FlatShard, AreTheSmallestAlignedOnesThatHoldEverything) {
  for (int64_t parts = 1; parts <= 9; ++parts) {
    for (int64_t elements = 0; elements <= 1500; ++elements) {
      const int64_t share = shard_elements(elements, parts);
      ASSERT_EQ(share % kShardAlign, 0) << elements << " in " << parts;
      ASSERT_GE(share * parts, elements) << elements << " in " << parts;
      ASSERT_LT((share - kShardAlign) * parts, std::max<int64_t>(elements, 1)) << elements << " in " << parts;
      ASSERT_EQ(padded_elements(elements, parts), share * parts) << elements << " in " << parts;
    }
  }
}

}  // namespace flat_shard_test
}  // namespace hawser::mesh
