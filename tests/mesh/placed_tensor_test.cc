// Tests which rank holds which element: every layout on every mesh up to 64 ranks, against the
// element-by-element reference.
#include "engine/mesh/placed_tensor.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "engine/base/error.h"
#include "engine/mesh/flat_shard.h"
#include "tests/mesh/layout_cases.h"

namespace hawser::mesh {
namespace placed_tensor_test {

using enum Axis;

/// Returns the elements of a rank's blocks with their offsets in memory; fails if two have the same offset.
std::map<Index, int64_t> memory_of(const PlacedTensor& tensor, int64_t rank) {
  std::map<Index, int64_t> places;
  std::set<int64_t> taken;
  for (const Block& block : tensor.blocks(rank)) {
    EXPECT_FALSE(block.box.is_empty());
    for_each_index(tensor.shape(), [&](const Index& index) {
      if (!block.box.contains(index)) return;
      const int64_t place = block.position(index);
      EXPECT_TRUE(place >= 0 && place < tensor.local_elements()) << place;
      EXPECT_TRUE(taken.insert(place).second) << "two elements at " << place;
      EXPECT_TRUE(places.emplace(index, place).second) << "an element twice";
    });
  }
  return places;
}

void check_tensor(const PlacedTensor& tensor) {
  const int64_t world = tensor.mesh().world_size();
  std::vector<std::map<Index, int64_t>> memory;
  for (int64_t rank = 0; rank < world; ++rank) memory.push_back(memory_of(tensor, rank));

  for_each_index(tensor.shape(), [&](const Index& index) {
    std::vector<int64_t> holders, owners;
    for (int64_t rank = 0; rank < world; ++rank) {
      const bool holds = reference_holds(tensor, rank, index);
      EXPECT_EQ(memory[static_cast<size_t>(rank)].count(index), holds ? 1u : 0u) << "rank " << rank;
      if (holds) holders.push_back(rank);
      if (holds && tensor.is_owner(rank)) owners.push_back(rank);
    }
    const std::span<const int64_t> global(index.data(), tensor.shape().size());
    ASSERT_EQ(owners.size(), 1u) << "each element has one owner";
    EXPECT_EQ(tensor.owner_of(global), owners[0]);
    EXPECT_EQ(owners[0], holders[0]);
    EXPECT_EQ(tensor.holders_of(global), holders);
  });
  for (int64_t rank = 0; rank < world; ++rank) {
    if (!tensor.has_place(rank)) {
      EXPECT_TRUE(memory[static_cast<size_t>(rank)].empty());
      continue;
    }
    EXPECT_EQ(memory[static_cast<size_t>(rank)], memory[static_cast<size_t>(tensor.owner(rank))])
        << "replicas agree, in their places too";
  }
}

TEST(PlacedTensor, EveryElementHasOneOwnerOnEveryDenseMesh) {
  size_t turn = 0;
  for (const Degrees& degrees : dense_meshes()) {
    const DeviceMesh mesh(degrees);
    const std::vector<LayoutCase> cases = dense_cases(mesh);
    // Small worlds test all layouts, large ones a sample.
    const size_t step = mesh.world_size() <= 8 ? 1 : 7;
    for (size_t i = turn++ % step; i < cases.size(); i += step) {
      SCOPED_TRACE(text(degrees) + ": " + cases[i].name);
      check_tensor(PlacedTensor(mesh, cases[i].layout, cases[i].shape));
      if (HasFailure()) return;
    }
  }
}

TEST(PlacedTensor, EveryElementHasOneOwnerOnEveryExpertMesh) {
  for (int64_t pp : {1, 3}) {
    for (int64_t stage = 1; pp * stage <= kMostTestRanks; ++stage) {
      for (const Degrees& degrees : expert_meshes({pp, 1, stage, 1, 1, 1, 1})) {
        const DeviceMesh mesh(degrees);
        for (const LayoutCase& c : expert_cases(mesh)) {
          SCOPED_TRACE(text(degrees) + ": " + c.name);
          check_tensor(PlacedTensor(mesh, c.layout, c.shape));
          if (HasFailure()) return;
        }
      }
    }
  }
}

TEST(PlacedTensor, UnevenPiecesArePaddedAtTheEnd) {
  const DeviceMesh mesh({1, 1, 1, 1, 4, 1, 1});
  const PlacedTensor rows(mesh, {{shard({kTp}, 0)}, {}}, {7, 3});
  EXPECT_EQ(rows.local_shape(), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(rows.blocks(3).at(0).box.begin[0], 6);
  EXPECT_EQ(rows.blocks(3).at(0).box.end[0], 7);
  const PlacedTensor heads(mesh, {{shard({kTp}, 0, 5)}, {}}, {15, 2});
  EXPECT_EQ(heads.local_shape(), (std::vector<int64_t>{6, 2}));
  EXPECT_EQ(heads.blocks(2).at(0).box.extent(0), 3) << "one head, and room for one more";
  EXPECT_TRUE(heads.blocks(3).empty());
}

TEST(PlacedTensor, FlatShardsFollowTheBuffer) {
  const DeviceMesh mesh({1, 1, 3, 1, 1, 1, 1});
  const PlacedTensor tensor(mesh, {{flat({kDpShard}, 100, 300)}, {}}, {10, 10});
  ASSERT_EQ(shard_elements(300, 3), 128);
  EXPECT_EQ(tensor.local_elements(), 128);
  EXPECT_EQ(tensor.blocks(0).at(0).offset, 100);
  EXPECT_EQ(tensor.blocks(0).size(), 2u) << "28 elements: two rows and a bit";
  EXPECT_EQ(tensor.blocks(1).at(0).offset, 0);
  EXPECT_TRUE(tensor.blocks(2).empty());
}

TEST(PlacedTensor, IndicesOutsideAreRefused) {
  const PlacedTensor tensor(DeviceMesh(), {}, {2, 3});
  for (const std::vector<int64_t>& index : {std::vector<int64_t>{2, 0}, {0, -1}, {0}, {0, 0, 0}}) {
    EXPECT_THROW(tensor.owner_of(index), Error);
  }
  EXPECT_EQ(tensor.owner_of(std::vector<int64_t>{1, 2}), 0);
}

TEST(Box, RunsAreCutIntoFewBoxesInOrder) {
  const Index extents{3, 2, 4, 5};
  const Index strides = row_major_strides(extents);
  for (int64_t begin = 0; begin <= 120; ++begin) {
    for (int64_t end = begin; end <= 120; ++end) {
      std::vector<int64_t> found;
      const std::vector<Box> boxes = boxes_of_run(extents, begin, end);
      ASSERT_LE(boxes.size(), 7u);
      for (const Box& box : boxes) {
        for (int64_t i = 0; i < 120; ++i) {
          Index index;
          for (size_t d = 0; d < kMostDims; ++d) index[d] = i / strides[d] % extents[d];
          if (box.contains(index)) found.push_back(i);
        }
      }
      ASSERT_EQ(found.size(), static_cast<size_t>(end - begin));
      for (size_t i = 0; i < found.size(); ++i) ASSERT_EQ(found[i], begin + static_cast<int64_t>(i));
    }
  }
}

}  // namespace placed_tensor_test
}  // namespace hawser::mesh
