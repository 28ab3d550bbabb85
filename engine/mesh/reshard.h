// Resharding: which elements each rank sends to which other, when a tensor moves from one layout and mesh to
// another. A pure function of the two.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/mesh/placed_tensor.h"

namespace hawser::mesh {

/// Elements of `box` go from one rank's memory to another's.
struct Transfer {
  int64_t from_rank = 0;  ///< in the mesh of the source
  int64_t to_rank = 0;    ///< in the mesh of the destination
  Block from, to;         ///< the same box in both memories
};

/// What one rank of the destination receives: each element that it holds, once. If its number is that of a
/// rank of the source that holds an element, that is where it comes from (no message if they are one
/// process); otherwise the source's replicas take turns. Throws kInvalidArgument for different shapes and for
/// Partial layouts.
std::vector<Transfer> transfers_to(const PlacedTensor& from, const PlacedTensor& to, int64_t to_rank);

}  // namespace hawser::mesh
