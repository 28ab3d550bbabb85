// PlacedTensor: a tensor of a given shape, spread over a given mesh in a given way; and the arithmetic of who
// holds which element, and where in its memory. A value; pure functions of what it was made from.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/mesh/box.h"
#include "engine/mesh/layout.h"

namespace hawser::mesh {

/// Elements that a rank holds, and where: global index i lies at element
/// offset + sum over d of (i[d] - box.begin[d]) * strides[d] of the rank's memory.
struct Block {
  Box box;             ///< global indices; never empty
  int64_t offset = 0;  ///< from the start of the rank's local tensor; with Flat of its shard of the buffer
  Index strides{};     ///< in elements

  int64_t position(const Index& index) const {
    int64_t at = offset;
    for (size_t d = 0; d < kMostDims; ++d) at += (index[d] - box.begin[d]) * strides[d];
    return at;
  }
};

class PlacedTensor {
 public:
  /// Throws as check_layout.
  PlacedTensor(DeviceMesh mesh, Layout layout, std::vector<int64_t> shape);

  const DeviceMesh& mesh() const { return mesh_; }
  const Layout& layout() const { return layout_; }
  const std::vector<int64_t>& shape() const { return shape_; }

  /// Shape that every holding rank has room for, padding included; what Flat flattens.
  std::vector<int64_t> local_shape() const;
  /// Elements of a rank's memory that block offsets refer to: of its local tensor, or of its shard of the
  /// flat buffer (which holds other tensors too).
  int64_t local_elements() const;

  /// False for stages that do not have the tensor. It may still hold nothing but padding.
  bool has_place(int64_t rank) const;
  /// What a rank holds, by ascending position; no element twice. Empty where there is only padding.
  std::vector<Block> blocks(int64_t rank) const;

  /// Ranks that hold the same elements as `rank`, itself included, ascending. Where the layout is Partial
  /// they hold addends of them. `rank` must have a place.
  std::vector<int64_t> replicas(int64_t rank) const;
  /// The first of the replicas. The owner counts its elements in norms and writes them to checkpoints; so
  /// each is counted and written once.
  int64_t owner(int64_t rank) const;
  bool is_owner(int64_t rank) const { return has_place(rank) && owner(rank) == rank; }
  /// All owners, ascending; together they hold each element once.
  std::vector<int64_t> owners() const;

  /// The one owner of an element, by its global index. Throws kOutOfRange for an index outside of the tensor.
  int64_t owner_of(std::span<const int64_t> index) const;
  /// All ranks that hold it, ascending. Throws likewise.
  std::vector<int64_t> holders_of(std::span<const int64_t> index) const;

 private:
  /// A Shard entry in elements, as they nest.
  struct Cut {
    size_t entry;  ///< in layout_.entries
    size_t dim;
    int64_t share;  ///< room of each rank along the dim
  };
  const Entry* flat() const;  ///< null: none
  /// What a rank's local tensor covers, from its first place on; empty where that is padding only.
  Box local_box(int64_t rank) const;

  DeviceMesh mesh_;
  Layout layout_;
  std::vector<int64_t> shape_;
  std::vector<Cut> cuts_;
  Box global_;                             ///< the whole tensor
  Index room_{1, 1, 1, 1};                 ///< extents of a local tensor, padding included
  std::vector<SubAxis> replicating_axes_;  ///< besides pp: along which ranks hold the same elements
  std::vector<int64_t> stages_;
};

}  // namespace hawser::mesh
