// The sums that a gradient needs: the difference between the layout that the backward leaves and the layout
// that the optimizer wants.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/mesh/layout.h"

namespace hawser::mesh {

/// One collective over the group of `axes` (sub_axis.h).
struct ReduceStep {
  enum class Kind : uint8_t {
    kSum,           ///< every rank gets the sum
    kReduceScatter  ///< every rank gets its share of the sum, as in the wanted layout
  };
  Kind kind = Kind::kSum;
  std::vector<SubAxis> axes;  ///< in mesh order, each of degree 2 or more

  bool operator==(const ReduceStep&) const = default;
};

/// The steps from `gradient` to `wanted`, in order: first over stages (the two gradients of a tied tensor are
/// added before data-parallel ranks are summed), then over model axes (tp, ep, etp), then over data axes
/// (dp_replicate, dp_shard, cp, edp), reduce_scatter before sum, so that the sum moves only shards. Axes that
/// are the same on both sides do not appear, nor does taking a part of what is already whole. Throws
/// kInvalidArgument if no sum leads from one to the other: something is wanted Partial, is wanted whole but
/// sharded in the gradient, or is sharded in another way.
std::vector<ReduceStep> reduction(const DeviceMesh& mesh, const Layout& gradient, const Layout& wanted);

}  // namespace hawser::mesh
