// SubAxis: an axis of the mesh, or the outer or inner part of an axis that is split in two. Example: tp =
// kv_shard x kv_replica if there are fewer key/value heads than tp ranks. The outer part divides the heads;
// ranks of the inner part hold the same heads.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/mesh/mesh.h"

namespace hawser::mesh {

enum class Half : uint8_t { kWhole, kOuter, kInner };

struct SubAxis {
  Axis axis = Axis::kPp;
  Half half = Half::kWhole;
  int64_t outer_degree = 1;  ///< degree of the outer part of a split axis; divides the axis

  SubAxis(Axis whole) : axis(whole) {}  // NOLINT: an axis is a sub-axis
  SubAxis(Axis split, Half which, int64_t outer) : axis(split), half(which), outer_degree(outer) {}
  bool operator==(const SubAxis&) const = default;
};

inline SubAxis outer_half(Axis axis, int64_t outer_degree) { return {axis, Half::kOuter, outer_degree}; }
inline SubAxis inner_half(Axis axis, int64_t outer_degree) { return {axis, Half::kInner, outer_degree}; }

std::string name(const SubAxis& axis);  ///< "tp", "tp.outer", "tp.inner"

int64_t degree(const DeviceMesh& mesh, const SubAxis& axis);
int64_t coordinate(const DeviceMesh& mesh, int64_t rank, const SubAxis& axis);
/// The rank that has this coordinate on the sub-axis and the coordinates of `rank` on the others.
int64_t at(const DeviceMesh& mesh, int64_t rank, const SubAxis& axis, int64_t coordinate);

// Several sub-axes that act as one, the first outermost.
int64_t degree(const DeviceMesh& mesh, std::span<const SubAxis> axes);
int64_t coordinate(const DeviceMesh& mesh, int64_t rank, std::span<const SubAxis> axes);
int64_t at(const DeviceMesh& mesh, int64_t rank, std::span<const SubAxis> axes, int64_t coordinate);

/// The world ranks that differ from `rank` only on these sub-axes, in the order of their coordinate. If the
/// axes are in mesh order, the ranks are ascending, and a member's position in the group is its coordinate.
std::vector<int64_t> group(const DeviceMesh& mesh, int64_t rank, std::span<const SubAxis> axes);

}  // namespace hawser::mesh
