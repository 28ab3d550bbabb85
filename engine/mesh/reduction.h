// Which sums a gradient needs: the difference between the layout in which the backward leaves it and the one
// that the optimizer wants.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/mesh/layout.h"

namespace hawser::mesh {

/// One collective over the group of `axes` (sub_axis.h).
struct ReduceStep {
  enum class Kind : uint8_t {
    kSum,           ///< everyone gets the sum of what they hold
    kReduceScatter  ///< everyone gets the part of the sum that the wanted layout cuts for it
  };
  Kind kind = Kind::kSum;
  std::vector<SubAxis> axes;  ///< in mesh order, each of degree 2 or more

  bool operator==(const ReduceStep&) const = default;
};

/// The steps that make `wanted` of `gradient`, in order: first over stages (a tied tensor's two gradients are
/// one before data-parallel ranks are summed), then over model axes (tp, ep, etp), then over data axes
/// (dp_replicate, dp_shard, cp, edp), there reduce_scatter before sum, which then moves shards only. Axes
/// that are cut alike or hold the same on both sides need nothing and do not appear; nor does taking one's
/// part of what is held whole. Throws kInvalidArgument where no sum leads from one to the other: something
/// wanted Partial, wanted whole but left in parts, or cut in another way.
std::vector<ReduceStep> reduction(const DeviceMesh& mesh, const Layout& gradient, const Layout& wanted);

}  // namespace hawser::mesh
