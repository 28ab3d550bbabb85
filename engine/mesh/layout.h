// Layout: how one tensor is distributed over the ranks of a mesh. Each parameter declares two layouts: that
// of its value and that of its gradient after the backward. Reductions, norms, optimizer shards, checkpoint
// slices and resharding are derived from these two. Shapes and indices refer to the global tensor, unfused
// and unpadded, as in a checkpoint.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/mesh/sub_axis.h"

namespace hawser::mesh {

enum class Placement : uint8_t {
  kReplicate,  ///< all ranks along the axes hold the same values
  kPartial,    ///< each rank along the axes holds an addend; the value is their sum
  kShard,      ///< one dim is divided
  kFlat,       ///< the rest after all kShard entries, flattened into part of a divided flat buffer
};

/// The distribution along some axes. Several axes act as one, the first outermost. They must be in mesh
/// order, so that a rank's position in their process group equals its position in the tensor.
struct Entry {
  std::vector<SubAxis> axes;
  Placement placement = Placement::kReplicate;
  int64_t dim = 0;  ///< kShard: the dim that is divided
  /// kShard: the dim consists of this many equal, indivisible pieces (heads); 0: of single indices
  int64_t pieces = 0;
  int64_t offset = 0;           ///< kFlat: offset of the tensor's first element in the buffer
  int64_t buffer_elements = 0;  ///< kFlat: elements of the complete buffer, without padding

  bool operator==(const Entry&) const = default;
};

/// Axes without an entry replicate. If the pieces of a dim do not divide evenly, every rank has space for the
/// same number of them, rounded up; the last ranks hold fewer or none, and the rest of their space is
/// padding. Entries that divide one dim nest, the first outermost. flat_shard.h defines the shards of a flat
/// buffer.
struct Layout {
  std::vector<Entry> entries;
  std::vector<int64_t> stages;  ///< pp coordinates that hold the tensor, ascending; empty: all

  bool operator==(const Layout&) const = default;
};

Entry replicate(std::vector<SubAxis> axes);
Entry partial(std::vector<SubAxis> axes);
Entry shard(std::vector<SubAxis> axes, int64_t dim, int64_t pieces = 0);
Entry flat(std::vector<SubAxis> axes, int64_t offset, int64_t buffer_elements);

bool is_cut(const Entry& entry);           ///< kShard or kFlat
bool has_partial(const Layout& layout);    ///< any kPartial
std::string describe(const Entry& entry);  ///< "Shard(dim 0, 12 pieces) over tp", for messages

/// Throws kInvalidArgument if the layout is impossible for a tensor of this shape (1 to 4 dims, none empty)
/// on this mesh: dense and expert axes together, an axis used twice or split in two ways, a split or pieces
/// that do not divide, a missing dim, a tensor outside its flat buffer, and so on.
void check_layout(const DeviceMesh& mesh, const Layout& layout, const std::vector<int64_t>& shape);

}  // namespace hawser::mesh
