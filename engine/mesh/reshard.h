// Resharding: which elements each rank sends to which other rank when a tensor changes layout or mesh. A pure
// function of the two.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/mesh/placed_tensor.h"

namespace hawser::mesh {

/// A copy of the elements of `box` from one rank's memory to another's.
struct BlockCopy {
  int64_t from_rank = 0;  ///< in the mesh of the source
  int64_t to_rank = 0;    ///< in the mesh of the destination
  Block from, to;         ///< the same box in both memories
};

/// What one destination rank receives: each element that it holds, once. If the source rank of the same
/// number holds an element, it comes from there (no message within one process). Otherwise the source's
/// replicas take turns. Throws kInvalidArgument for different shapes and for Partial layouts.
std::vector<BlockCopy> copies_to(const PlacedTensor& from, const PlacedTensor& to, int64_t to_rank);

}  // namespace hawser::mesh
