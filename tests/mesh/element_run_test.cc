// Compares ranges of elements with the blocks from which they are made, element by element.
#include "engine/mesh/element_run.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/mesh/layout_cases.h"

namespace hawser::mesh {
namespace element_run_test {

using enum Axis;

/// Returns offsets in memory, keyed by the element's number.
std::map<int64_t, int64_t> places_by_blocks(const PlacedTensor& tensor, int64_t rank) {
  std::map<int64_t, int64_t> places;
  int64_t number = 0;
  for_each_index(tensor.shape(), [&](const Index& index) {
    for (const Block& block : tensor.blocks(rank))
      if (block.box.contains(index)) places[number] = block.position(index);
    ++number;
  });
  return places;
}

TEST(ElementRun, NamesTheElementsAndPlacesOfTheBlocks) {
  for (const Degrees& degrees : dense_meshes(12)) {
    const DeviceMesh mesh(degrees);
    for (const LayoutCase& c : dense_cases(mesh)) {
      SCOPED_TRACE(text(degrees) + ": " + c.name);
      const PlacedTensor tensor(mesh, c.layout, c.shape);
      for (int64_t rank = 0; rank < mesh.world_size(); ++rank) {
        std::map<int64_t, int64_t> places;
        int64_t end = -1, after = -1;
        for (const ElementRun& run : element_runs(tensor, rank)) {
          EXPECT_GT(run.size(), 0);
          EXPECT_GE(run.begin, end) << "ascending";
          EXPECT_FALSE(run.begin == end && run.at == after) << "two runs that are one";
          for (int64_t i = 0; i < run.size(); ++i) places[run.begin + i] = run.at + i;
          end = run.end, after = run.at + run.size();
        }
        ASSERT_EQ(places, places_by_blocks(tensor, rank)) << "rank " << rank;
      }
    }
  }
}

TEST(ElementRun, OfACutOfColumnsAreJoinedToAtMostThree) {
  Degrees degrees;
  degrees.dp_shard = 3, degrees.tp = 2;
  const DeviceMesh mesh(degrees);
  for (const int64_t offset : {0, 5, 64}) {
    const Layout layout{{shard({Axis::kTp}, 1), flat({Axis::kDpShard}, offset, 400)}, {}};
    const PlacedTensor tensor(mesh, layout, {30, 14});
    for (int64_t rank = 0; rank < mesh.world_size(); ++rank) {
      const std::vector<ElementRun> runs = element_runs(tensor, rank);
      const std::vector<ElementRows> joined = joined_rows(runs, 14);
      EXPECT_LE(joined.size(), 3u);
      std::vector<ElementRun> again;
      for (const auto& [first, rows] : joined)
        for (int64_t r = 0; r < rows; ++r)
          again.push_back({first.begin + r * 14, first.end + r * 14, first.at + r * first.size()});
      EXPECT_EQ(again, runs);
    }
  }
}

TEST(ElementRun, OfOtherColumnsAreNotJoined) {
  // The ranges are the end of one row's share and the beginning of the next one's, equally long.
  EXPECT_EQ(joined_rows({{9, 12, 0}, {14, 17, 3}}, 14).size(), 2u);
  EXPECT_EQ(joined_rows({{2, 5, 0}, {16, 19, 3}, {30, 33, 6}}, 14),
            (std::vector<ElementRows>{{{2, 5, 0}, 3}}));
  EXPECT_EQ(joined_rows({{2, 5, 0}, {16, 19, 4}}, 14).size(), 2u) << "apart in memory";
  EXPECT_EQ(joined_rows({{2, 5, 0}, {30, 33, 3}}, 14).size(), 2u) << "a row is left out";
}

TEST(ElementRun, AreFewWhereMemoryAllowsIt) {
  const DeviceMesh mesh({1, 1, 2, 1, 3, 1, 1});
  const auto count = [&](const Layout& layout) {
    return element_runs(PlacedTensor(mesh, layout, {6, 9}), 0).size();
  };
  EXPECT_EQ(count({}), 1u) << "whole";
  EXPECT_EQ(count({{shard({kTp}, 0)}, {}}), 1u) << "rows";
  EXPECT_EQ(count({{flat({kDpShard}, 5, 70)}, {}}), 1u) << "a flat shard that begins within a row";
  EXPECT_EQ(count({{shard({kTp}, 1)}, {}}), 6u) << "columns: a run for each row";
}

}  // namespace element_run_test
}  // namespace hawser::mesh
