// DeviceMesh: the arrangement of the ranks of a world, as pure arithmetic. Axes, outermost first: pp,
// dp_replicate, dp_shard, cp, tp. Experts have their own axes over the same ranks: within a pipeline stage,
// ranks are also numbered by edp, ep, etp (outermost first). A mesh is a plain value.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

namespace hawser::mesh {

struct MeshConfig;

enum class Axis : uint8_t { kPp, kDpReplicate, kDpShard, kCp, kTp, kEdp, kEp, kEtp, kCount };
constexpr size_t kAxes = static_cast<size_t>(Axis::kCount);
const char* axis_name(Axis axis);  ///< "pp", "dp_replicate", ...
/// True if the axis is edp, ep or etp, which arrange the ranks of a stage for experts. pp belongs to both
/// arrangements.
constexpr bool is_expert_axis(Axis axis) { return axis >= Axis::kEdp; }
constexpr bool is_dense_axis(Axis axis) { return axis > Axis::kPp && axis < Axis::kEdp; }

/// Degrees of the axes; each is at least 1. world = pp * dp_replicate * dp_shard * cp * tp, at most 2^31 - 1;
/// ep * etp must divide world / pp.
struct Degrees {
  int64_t pp = 1, dp_replicate = 1, dp_shard = 1, cp = 1, tp = 1;
  int64_t ep = 1, etp = 1;
};

class DeviceMesh {
 public:
  DeviceMesh() = default;  ///< one rank
  /// Throws kInvalidArgument for degrees below 1, too many ranks, or expert degrees that do not divide.
  explicit DeviceMesh(const Degrees& degrees);
  /// Of the mesh section of a config, which is valid.
  explicit DeviceMesh(const MeshConfig& config);

  int64_t world_size() const { return degree(Axis::kPp) * stage_size(); }
  int64_t degree(Axis axis) const { return degree_[static_cast<size_t>(axis)]; }
  /// The coordinate of `rank` on `axis`, from 0.
  int64_t coordinate(int64_t rank, Axis axis) const { return rank / stride(axis) % degree(axis); }
  /// The rank that has this coordinate on `axis` and the coordinates of `rank` on the other axes.
  int64_t at(int64_t rank, Axis axis, int64_t coordinate) const {
    return rank + (coordinate - this->coordinate(rank, axis)) * stride(axis);
  }
  /// The world ranks that differ from `rank` only on `axes` (all dense or all expert axes, apart from pp),
  /// ascending. Throws kInvalidArgument for an invalid rank and for axes of both arrangements.
  std::vector<int64_t> group(int64_t rank, std::span<const Axis> axes) const;
  std::vector<int64_t> group(int64_t rank, std::initializer_list<Axis> axes) const {
    return group(rank, std::span(axes.begin(), axes.size()));
  }
  /// Data-parallel ranks, in the order in which they divide a global batch: dp_replicate outer, dp_shard
  /// inner.
  int64_t dp_size() const { return degree(Axis::kDpReplicate) * degree(Axis::kDpShard); }
  int64_t dp_rank(int64_t rank) const {
    return coordinate(rank, Axis::kDpReplicate) * degree(Axis::kDpShard) + coordinate(rank, Axis::kDpShard);
  }

 private:
  /// Ranks of one pipeline stage.
  int64_t stage_size() const {
    return degree(Axis::kDpReplicate) * degree(Axis::kDpShard) * degree(Axis::kCp) * degree(Axis::kTp);
  }
  /// Distance between the numbers of two ranks that are neighbours on `axis`.
  int64_t stride(Axis axis) const { return stride_[static_cast<size_t>(axis)]; }

  std::array<int64_t, kAxes> degree_{1, 1, 1, 1, 1, 1, 1, 1};
  std::array<int64_t, kAxes> stride_{1, 1, 1, 1, 1, 1, 1, 1};
};

}  // namespace hawser::mesh
