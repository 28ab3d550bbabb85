// Resharding: computes which elements each rank sends to which other rank when a tensor changes layout or
// mesh. The result depends only on the two placed tensors.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/mesh/placed_tensor.h"

namespace hawser::mesh {

/// A copy of the elements of one box from one rank's memory to another's.
struct BlockCopy {
  int64_t from_rank = 0;  ///< in the mesh of the source
  int64_t to_rank = 0;    ///< in the mesh of the destination
  Block from, to;         ///< the same box in both memories
};

/// The copies that one destination rank receives: each element that it holds, once. If the source rank of the
/// same number holds an element, that rank sends it (within one process, without a message). Otherwise the
/// source's replicas share the work. Throws kInvalidArgument if the shapes differ or a layout is Partial.
std::vector<BlockCopy> copies_to(const PlacedTensor& from, const PlacedTensor& to, int64_t to_rank);

}  // namespace hawser::mesh
