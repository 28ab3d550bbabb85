#include "engine/mesh/reshard.h"

#include "engine/base/error.h"

namespace hawser::mesh {
namespace {

/// The sub-block for `box`, which must lie inside the block.
Block part_of(const Block& block, const Box& box) { return {box, block.position(box.begin), block.strides}; }

/// Returns the rank that sends the elements of `owner` to `to_rank`, chosen among the ranks that hold them.
int64_t sender(const PlacedTensor& from, int64_t owner, int64_t to_rank) {
  if (from.has_place(to_rank) && from.owner(to_rank) == owner) return to_rank;
  const std::vector<int64_t> replicas = from.replicas(owner);
  return replicas[static_cast<size_t>(to_rank) % replicas.size()];
}

}  // namespace

std::vector<BlockCopy> copies_to(const PlacedTensor& from, const PlacedTensor& to, int64_t to_rank) {
  if (from.shape() != to.shape())
    fail(Code::kInvalidArgument, "reshard: the two layouts are of different shapes");
  if (has_partial(from.layout()) || has_partial(to.layout()))
    fail(Code::kInvalidArgument, "reshard: a Partial tensor has no values to move; reduce it first");
  std::vector<BlockCopy> copies;
  const std::vector<Block> wanted = to.blocks(to_rank);
  if (wanted.empty()) return copies;
  for (const int64_t owner : from.owners()) {
    const int64_t from_rank = sender(from, owner, to_rank);
    for (const Block& held : from.blocks(owner)) {  // the same on every replica
      for (const Block& want : wanted) {
        const Box box = intersection(held.box, want.box);
        if (box.is_empty()) continue;
        copies.push_back({from_rank, to_rank, part_of(held, box), part_of(want, box)});
      }
    }
  }
  return copies;
}

}  // namespace hawser::mesh
