// Tests resharding, simulated on memories that contain each element's number.
#include "engine/mesh/reshard.h"

#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "tests/mesh/layout_cases.h"

namespace hawser::mesh {
namespace reshard_test {

using enum Axis;
constexpr int64_t kNothing = -1;
using Memory = std::vector<int64_t>;

/// Returns a rank's memory: the number of each element at its offset, kNothing elsewhere.
Memory filled(const PlacedTensor& tensor, int64_t rank, const std::vector<Block>& blocks) {
  Memory memory(static_cast<size_t>(tensor.local_elements()), kNothing);
  int64_t number = 0;
  for_each_index(tensor.shape(), [&](const Index& index) {
    if (tensor.has_place(rank)) {
      for (const Block& block : blocks) {
        if (block.box.contains(index)) memory[static_cast<size_t>(block.position(index))] = number;
      }
    }
    ++number;
  });
  return memory;
}

void check_move(const PlacedTensor& from, const PlacedTensor& to) {
  std::vector<Memory> sources;
  for (int64_t rank = 0; rank < from.mesh().world_size(); ++rank)
    sources.push_back(filled(from, rank, from.blocks(rank)));
  for (int64_t rank = 0; rank < to.mesh().world_size(); ++rank) {
    Memory memory(static_cast<size_t>(to.local_elements()), kNothing);
    for (const BlockCopy& copy : copies_to(from, to, rank)) {
      ASSERT_EQ(copy.to_rank, rank);
      ASSERT_EQ(copy.from.box, copy.to.box);
      for_each_index(to.shape(), [&](const Index& index) {
        if (!copy.to.box.contains(index)) return;
        int64_t& place = memory[static_cast<size_t>(copy.to.position(index))];
        EXPECT_EQ(place, kNothing) << "received twice";
        place = sources[static_cast<size_t>(copy.from_rank)][static_cast<size_t>(copy.from.position(index))];
      });
    }
    ASSERT_EQ(memory, filled(to, rank, to.blocks(rank))) << "rank " << rank;
  }
}

std::vector<Layout> layouts_of(const DeviceMesh& mesh) {
  return {{},
          {{flat({kDpShard, kCp}, 5, 100)}, {}},
          {{flat({kDpReplicate, kDpShard}, 64, 200)}, {}},
          {{shard({kTp}, 0, 3), flat({kDpShard}, 0, 300)}, {}},
          {{shard({kTp}, 1), shard({kCp}, 0)}, {}},
          {{shard({kDpShard}, 1)}, {mesh.degree(kPp) - 1}}};
}

TEST(Reshard, MovesEveryElementOnceBetweenAllSmallMeshes) {
  const std::vector<int64_t> shape = {9, 7};
  const std::vector<Degrees> meshes = dense_meshes(6);
  size_t turn = 0;
  for (const Degrees& a : meshes) {
    for (const Degrees& b : meshes) {
      const DeviceMesh source(a), destination(b);
      const std::vector<Layout> from = layouts_of(source), to = layouts_of(destination);
      const size_t i = turn % from.size(), j = turn / from.size() % to.size();
      ++turn;
      SCOPED_TRACE(text(a) + ": " + std::to_string(i) + " -> " + text(b) + ": " + std::to_string(j));
      check_move({source, from[i], shape}, {destination, to[j], shape});
      if (HasFailure()) return;
    }
  }
}

TEST(Reshard, MovesEveryElementOnceIntoAndOutOfLargeMeshes) {
  const std::vector<int64_t> shape = {9, 7};
  const DeviceMesh one, large({2, 2, 4, 2, 2, 1, 1}), odd({1, 3, 7, 1, 3, 1, 1});
  for (const auto& [a, b] : {std::pair{one, large}, {large, odd}, {odd, large}, {odd, one}}) {
    for (const Layout& from : layouts_of(a)) {
      for (const Layout& to : layouts_of(b)) {
        check_move({a, from, shape}, {b, to, shape});
        if (HasFailure()) return;
      }
    }
  }
}

TEST(Reshard, KeepsAtHomeWhatIsThereAndSpreadsTheRest) {
  const DeviceMesh four({1, 4, 1, 1, 1, 1, 1}), sharded({1, 1, 8, 1, 1, 1, 1});
  const PlacedTensor from(four, {}, {64, 8}), to(sharded, {{flat({kDpShard}, 0, 512)}, {}}, {64, 8});
  for (int64_t rank = 0; rank < 8; ++rank) {
    const std::vector<BlockCopy> copies = copies_to(from, to, rank);
    ASSERT_EQ(copies.size(), 1u);
    EXPECT_EQ(copies[0].from_rank, rank % 4);
  }
}

TEST(Reshard, RefusesOtherShapesAndPartialTensors) {
  const DeviceMesh mesh({1, 2, 1, 1, 1, 1, 1});
  const PlacedTensor a(mesh, {}, {4}), b(mesh, {}, {5}), p(mesh, {{partial({kDpReplicate})}, {}}, {4});
  EXPECT_THROW(copies_to(a, b, 0), Error);
  EXPECT_THROW(copies_to(a, p, 0), Error);
  EXPECT_THROW(copies_to(p, a, 0), Error);
}

}  // namespace reshard_test
}  // namespace hawser::mesh
