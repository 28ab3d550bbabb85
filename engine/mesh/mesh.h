// DeviceMesh: how the ranks of a world are arranged, as pure arithmetic. Axes, outermost first: pp,
// dp_replicate, dp_shard, cp, tp. Experts fold axes of their own over the same ranks: the non-pp ranks of a
// stage are read as edp, ep, etp (outermost first). A mesh is a value that is passed down.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace hawser::mesh {

enum class Axis : uint8_t { kPp, kDpReplicate, kDpShard, kCp, kTp, kEdp, kEp, kEtp, kCount };
const char* axis_name(Axis axis);  ///< "pp", "dp_replicate", ...

/// Degrees; each at least 1. world = pp * dp_replicate * dp_shard * cp * tp; ep * etp must divide world / pp.
struct Degrees {
  int64_t pp = 1, dp_replicate = 1, dp_shard = 1, cp = 1, tp = 1;
  int64_t ep = 1, etp = 1;
};

class DeviceMesh {
 public:
  DeviceMesh() = default;  ///< one rank
  /// Throws kInvalidArgument for degrees under 1 and expert degrees that do not divide.
  explicit DeviceMesh(const Degrees& degrees);

  int64_t world_size() const;
  int64_t degree(Axis axis) const;
  /// This rank's place on `axis`, from 0.
  int64_t coordinate(int64_t rank, Axis axis) const;
  /// World ranks that differ from `rank` on `axes` alone (all dense or all expert axes, besides pp),
  /// ascending.
  std::vector<int64_t> group(int64_t rank, std::initializer_list<Axis> axes) const;
  /// Data-parallel ranks in the order in which they share a global batch: dp_replicate outer, dp_shard inner.
  int64_t dp_size() const { return degree(Axis::kDpReplicate) * degree(Axis::kDpShard); }
  int64_t dp_rank(int64_t rank) const;

 private:
  std::array<int64_t, static_cast<size_t>(Axis::kCount)> degree_{1, 1, 1, 1, 1, 1, 1, 1};
};

}  // namespace hawser::mesh
