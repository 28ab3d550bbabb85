// Layout: how one tensor is spread over the ranks of a mesh. Each parameter declares two layouts: of its
// value, and of its gradient as the backward leaves it. Reductions, norms, optimizer shards, checkpoint
// slices and resharding are all derived from these two. Shapes and indices are those of the global tensor:
// unfused, unpadded, as in a checkpoint.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/mesh/sub_axis.h"

namespace hawser::mesh {

enum class Placement : uint8_t {
  kReplicate,  ///< every rank along the axes holds the same
  kPartial,    ///< every rank along the axes holds an addend; the value is their sum
  kShard,      ///< a dim is cut
  kFlat,       ///< what is left after all kShard, flattened, lies in a flat buffer that is cut
};

/// What holds along some axes. Several axes count as one, the first outermost; they stand in mesh order, so
/// that a rank's place in their process group is its place in the cut.
struct Entry {
  std::vector<SubAxis> axes;
  Placement placement = Placement::kReplicate;
  int64_t dim = 0;              ///< kShard: the dim that is cut
  int64_t pieces = 0;           ///< kShard: equal pieces of it that are never cut (heads); 0: single indices
  int64_t offset = 0;           ///< kFlat: of the tensor's first element in the buffer
  int64_t buffer_elements = 0;  ///< kFlat: of the whole buffer, without the padding of its shards

  bool operator==(const Entry&) const = default;
};

/// Axes that no entry names replicate. Where the pieces of a dim do not divide, every rank has room for the
/// same number of them, rounded up: the last ranks hold fewer, or none, and the rest of their room is
/// padding. Entries that cut one dim nest, the first outermost. Shards of a flat buffer are those of
/// flat_shard.h.
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

/// Throws kInvalidArgument for a layout that no tensor of this shape (1 to 4 dims, none empty) can have on
/// this mesh: dense and expert axes together, an axis named twice or split in two ways or by what does not
/// divide it, a dim that is not there, pieces that do not divide it, a tensor that leaves its flat buffer,
/// and so on.
void check_layout(const DeviceMesh& mesh, const Layout& layout, const std::vector<int64_t>& shape);

}  // namespace hawser::mesh
