// Derives the sums that a gradient needs from two layouts: the one that the backward leaves and the one that
// the optimizer needs.
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
/// (dp_replicate, dp_shard, cp, edp); within a family reduce_scatter comes before sum, so that the sum moves
/// only shards. There is no step for axes that are the same on both sides, nor for a rank that takes its part
/// of an unsharded tensor. Throws kInvalidArgument if no sum leads from one layout to the other: `wanted` has
/// a Partial entry, lacks a sharding of the gradient, or shards it differently.
std::vector<ReduceStep> reduction(const DeviceMesh& mesh, const Layout& gradient, const Layout& wanted);

}  // namespace hawser::mesh
