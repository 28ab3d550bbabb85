#include "engine/mesh/layout.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/base/error.h"
#include "engine/mesh/box.h"

namespace hawser::mesh {
namespace {

constexpr int64_t kMostElements = int64_t{1} << 48;  // no product of sizes overflows

std::string names(const std::vector<SubAxis>& axes) {
  std::string list;
  for (const SubAxis& axis : axes) list += (list.empty() ? "" : " x ") + name(axis);
  return list;
}

/// Position of a sub-axis in the mesh, outermost first.
int order_of(const SubAxis& axis) {
  return 2 * static_cast<int>(axis.axis) + (axis.half == Half::kInner ? 1 : 0);
}

void check_shape(const std::vector<int64_t>& shape) {
  if (shape.empty() || shape.size() > kMostDims)
    fail(Code::kInvalidArgument, "layout: a tensor of {} dims; 1 to {} are possible", shape.size(),
         kMostDims);
  int64_t elements = 1;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] < 1)
      fail(Code::kInvalidArgument, "layout: dim {} has {} elements; use 1 or more", d, shape[d]);
    if (shape[d] > kMostElements / elements)
      fail(Code::kInvalidArgument, "layout: a tensor of more than {} elements", kMostElements);
    elements *= shape[d];
  }
}

void check_stages(const DeviceMesh& mesh, const std::vector<int64_t>& stages) {
  for (size_t i = 0; i < stages.size(); ++i) {
    if (stages[i] < 0 || stages[i] >= mesh.degree(Axis::kPp))
      fail(Code::kInvalidArgument, "layout: there is no stage {}; pp has stages 0 to {}", stages[i],
           mesh.degree(Axis::kPp) - 1);
    if (i > 0 && stages[i] <= stages[i - 1])
      fail(Code::kInvalidArgument, "layout: stage {} after stage {}; list each once, ascending", stages[i],
           stages[i - 1]);
  }
}

void check_axis(const DeviceMesh& mesh, const SubAxis& axis) {
  if (axis.axis >= Axis::kCount) fail(Code::kInvalidArgument, "layout: an axis that the mesh does not have");
  if (axis.half == Half::kWhole) return;
  const int64_t whole = mesh.degree(axis.axis);
  if (axis.axis == Axis::kPp) fail(Code::kInvalidArgument, "layout: pp is split; give the stages instead");
  if (axis.outer_degree < 1 || whole % axis.outer_degree != 0)
    fail(Code::kInvalidArgument, "layout: {} of degree {} cannot be split with {} outside; use a divisor",
         axis_name(axis.axis), whole, axis.outer_degree);
}

/// Fails if `a` and `b` conflict: every rank has one coordinate per axis, so an axis can be used only once.
void check_pair(const SubAxis& a, const SubAxis& b) {
  if ((is_dense_axis(a.axis) && is_expert_axis(b.axis)) || (is_expert_axis(a.axis) && is_dense_axis(b.axis)))
    fail(Code::kInvalidArgument, "layout: {} and {} arrange the same ranks; use dense or expert axes",
         name(a), name(b));
  if (a.axis != b.axis) return;
  if (a.half == Half::kWhole || b.half == Half::kWhole || a.half == b.half)
    fail(Code::kInvalidArgument, "layout: {} and {} overlap; name each part of an axis once", name(a),
         name(b));
  if (a.outer_degree != b.outer_degree)
    fail(Code::kInvalidArgument, "layout: {} is split with {} and with {} outside; split it in one way",
         axis_name(a.axis), a.outer_degree, b.outer_degree);
}

void check_axes(const DeviceMesh& mesh, const std::vector<Entry>& entries) {
  std::vector<SubAxis> seen;
  for (const Entry& entry : entries) {
    if (entry.axes.empty()) fail(Code::kInvalidArgument, "layout: {} names no axis", describe(entry));
    for (size_t i = 0; i < entry.axes.size(); ++i) {
      const SubAxis& axis = entry.axes[i];
      check_axis(mesh, axis);
      for (const SubAxis& other : seen) check_pair(other, axis);
      seen.push_back(axis);
      if (i > 0 && order_of(axis) < order_of(entry.axes[i - 1]))
        fail(Code::kInvalidArgument, "layout: {} names {} after {}; name axes in mesh order, outermost first",
             describe(entry), name(axis), name(entry.axes[i - 1]));
      if (axis.axis == Axis::kPp && is_cut(entry))
        fail(Code::kInvalidArgument, "layout: {}: stages hold whole tensors; give the stages instead",
             describe(entry));
    }
  }
}

/// Checks the shardings of one dim. They nest: each divides what the previous one leaves. Returns the extent
/// that the last one leaves.
int64_t check_cuts(const DeviceMesh& mesh, const std::vector<Entry>& entries, int64_t dim, int64_t extent) {
  int64_t room = extent;
  for (const Entry& entry : entries) {
    if (entry.placement != Placement::kShard || entry.dim != dim) continue;
    if (entry.pieces < 0 || (entry.pieces > 0 && extent % entry.pieces != 0))
      fail(Code::kInvalidArgument, "layout: {}: {} pieces do not divide {} elements", describe(entry),
           entry.pieces, extent);
    const int64_t length = entry.pieces == 0 ? 1 : extent / entry.pieces;
    if (room % length != 0)
      fail(Code::kInvalidArgument, "layout: {}: pieces of {} do not fit into the {} that earlier cuts leave",
           describe(entry), length, room);
    const int64_t ranks = degree(mesh, entry.axes);
    room = (room / length + ranks - 1) / ranks * length;
  }
  return room;
}

void check_flat(const Layout& layout, int64_t local_elements) {
  const Entry* found = nullptr;
  for (const Entry& entry : layout.entries) {
    if (entry.placement != Placement::kFlat) continue;
    if (found != nullptr)
      fail(Code::kInvalidArgument, "layout: both {} and {}; a tensor is in only one flat buffer",
           describe(entry), describe(*found));
    found = &entry;
    if (entry.offset < 0 || entry.buffer_elements < 1 ||
        entry.offset > entry.buffer_elements - local_elements)
      fail(Code::kInvalidArgument, "layout: {}: the tensor's {} elements do not fit into the buffer",
           describe(entry), local_elements);
  }
}

}  // namespace

Entry replicate(std::vector<SubAxis> axes) { return {std::move(axes), Placement::kReplicate}; }
Entry partial(std::vector<SubAxis> axes) { return {std::move(axes), Placement::kPartial}; }
Entry shard(std::vector<SubAxis> axes, int64_t dim, int64_t pieces) {
  return {std::move(axes), Placement::kShard, dim, pieces};
}
Entry flat(std::vector<SubAxis> axes, int64_t offset, int64_t buffer_elements) {
  return {std::move(axes), Placement::kFlat, 0, 0, offset, buffer_elements};
}

bool is_cut(const Entry& entry) {
  return entry.placement == Placement::kShard || entry.placement == Placement::kFlat;
}

bool has_partial(const Layout& layout) {
  return std::any_of(layout.entries.begin(), layout.entries.end(),
                     [](const Entry& entry) { return entry.placement == Placement::kPartial; });
}

std::string describe(const Entry& entry) {
  std::string what = "Replicate";
  if (entry.placement == Placement::kPartial) what = "Partial";
  if (entry.placement == Placement::kShard) what = fmt::format("Shard(dim {})", entry.dim);
  if (entry.placement == Placement::kShard && entry.pieces != 0)
    what = fmt::format("Shard(dim {}, {} pieces)", entry.dim, entry.pieces);
  if (entry.placement == Placement::kFlat)
    what = fmt::format("Flat(from {} of {})", entry.offset, entry.buffer_elements);
  return fmt::format("{} over {}", what, entry.axes.empty() ? "nothing" : names(entry.axes));
}

void check_layout(const DeviceMesh& mesh, const Layout& layout, const std::vector<int64_t>& shape) {
  check_shape(shape);
  check_stages(mesh, layout.stages);
  check_axes(mesh, layout.entries);
  for (const Entry& entry : layout.entries) {
    if (entry.placement == Placement::kShard &&
        (entry.dim < 0 || entry.dim >= static_cast<int64_t>(shape.size())))
      fail(Code::kInvalidArgument, "layout: {} of a tensor of {} dims", describe(entry), shape.size());
  }
  int64_t local_elements = 1;
  for (size_t d = 0; d < shape.size(); ++d) {
    local_elements *= check_cuts(mesh, layout.entries, static_cast<int64_t>(d), shape[d]);
  }
  check_flat(layout, local_elements);
}

}  // namespace hawser::mesh
