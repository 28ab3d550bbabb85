// PlacedTensor: a tensor of a given shape and layout on a given mesh. It computes which rank holds which
// element, and where in that rank's memory. It is an immutable value.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/mesh/box.h"
#include "engine/mesh/layout.h"

namespace hawser::mesh {

/// A box of elements that a rank holds, and its location: global index i is at element offset + sum over d of
/// (i[d] - box.begin[d]) * strides[d] of the rank's memory.
struct Block {
  Box box;             ///< global indices; never empty
  int64_t offset = 0;  ///< from the start of the rank's local tensor (Flat: of its shard of the buffer)
  Index strides{};     ///< in elements

  int64_t position(const Index& index) const {
    int64_t at = offset;
    for (size_t d = 0; d < kMostDims; ++d) at += (index[d] - box.begin[d]) * strides[d];
    return at;
  }
};

class PlacedTensor {
 public:
  /// Throws what check_layout throws.
  PlacedTensor(DeviceMesh mesh, Layout layout, std::vector<int64_t> shape);

  const DeviceMesh& mesh() const { return mesh_; }
  const Layout& layout() const { return layout_; }
  const std::vector<int64_t>& shape() const { return shape_; }

  /// The shape of a rank's local tensor, including padding. kFlat flattens this shape.
  std::vector<int64_t> local_shape() const;
  /// Number of elements of the memory that block offsets refer to: the local tensor, or the rank's shard of
  /// the flat buffer, which also holds other tensors.
  int64_t local_elements() const;

  /// False for a rank of a stage that does not have the tensor. A rank for which it is true may still hold
  /// only padding.
  bool has_place(int64_t rank) const;
  /// The blocks that a rank holds, in ascending order and without overlap. Empty if it holds only padding.
  std::vector<Block> blocks(int64_t rank) const;

  /// The axes except pp along which ranks hold the same elements, in mesh order.
  const std::vector<SubAxis>& replicating_axes() const { return replicating_axes_; }
  /// The ranks that hold the same elements as `rank`, itself included, ascending; in a Partial layout, they
  /// hold addends of these elements. has_place(rank) must be true.
  std::vector<int64_t> replicas(int64_t rank) const;
  /// The first of the replicas. Only the owner counts the elements in norms and writes them to checkpoints,
  /// so each element is counted and written once.
  int64_t owner(int64_t rank) const;
  bool is_owner(int64_t rank) const { return has_place(rank) && owner(rank) == rank; }
  /// All owners, ascending; together they hold each element once.
  std::vector<int64_t> owners() const;

  /// The owner of an element, by its global index. Throws kOutOfRange for an index outside the tensor.
  int64_t owner_of(std::span<const int64_t> index) const;
  /// All ranks that hold the element, ascending. Throws like owner_of.
  std::vector<int64_t> holders_of(std::span<const int64_t> index) const;

 private:
  /// A kShard entry, in elements.
  struct Cut {
    size_t entry;  ///< in layout_.entries
    size_t dim;
    int64_t share;  ///< space of each rank along the dim
  };
  const Entry* flat() const;  ///< null: none
  /// The elements covered by a rank's local tensor; empty if it is all padding.
  Box local_box(int64_t rank) const;

  DeviceMesh mesh_;
  Layout layout_;
  std::vector<int64_t> shape_;
  std::vector<Cut> cuts_;
  Box global_;              ///< the whole tensor
  Index room_{1, 1, 1, 1};  ///< extents of a local tensor, padding included
  std::vector<SubAxis> replicating_axes_;
  std::vector<int64_t> stages_;
};

}  // namespace hawser::mesh
