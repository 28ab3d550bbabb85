#include "engine/parallel/matrix_parts.h"

#include <algorithm>
#include <utility>

#include "engine/base/error.h"
#include "engine/mesh/flat_shard.h"
#include "engine/optim/update.h"

namespace hawser::parallel {
namespace {

/// Returns the axes of the layout's entry of that kind; none if it has no such entry.
std::vector<mesh::SubAxis> axes_of(const mesh::Layout& layout, mesh::Placement placement) {
  for (const mesh::Entry& entry : layout.entries)
    if (entry.placement == placement) return entry.axes;
  return {};
}

/// Returns the box of a matrix in its weight. It begins at `row`; rows of experts are numbered one expert
/// after the other.
mesh::Box box_of(const Matrix& m, const std::vector<int64_t>& shape, int64_t row) {
  const size_t of_rows = shape.size() - 2;
  mesh::Box box;
  if (of_rows > 0) box.begin[0] = row / shape[of_rows], box.end[0] = box.begin[0] + 1;
  box.begin[of_rows] = row % shape[of_rows], box.end[of_rows] = box.begin[of_rows] + m.rows;
  box.end[of_rows + 1] = m.columns;
  return box;
}

/// Returns the part of the matrix in `box` that a share of the weight contains; `elements` is 0 if there is
/// none. `of_rows`: the dim of rows. `offset`: the first element of the share in its group.
MatrixWindow window_of(const mesh::Box& box, const mesh::Block& share, size_t of_rows, int64_t offset) {
  const mesh::Box both = mesh::intersection(box, share.box);
  if (both.is_empty()) return {};
  MatrixWindow window;
  window.width = both.extent(of_rows + 1);
  HWS_CHECK(both.extent(of_rows) == 1 || share.strides[of_rows] == window.width);  // no padding inside
  window.corner = (both.begin[of_rows] - box.begin[of_rows]) * box.extent(of_rows + 1) +
                  both.begin[of_rows + 1] - box.begin[of_rows + 1];
  window.elements = both.elements();
  window.in_group = offset + share.position(both.begin);
  return window;
}

}  // namespace

const MatrixWindow* HeldMatrix::window(size_t rank) const {
  const int64_t at = holders->places[rank].share - first_share;
  return at >= 0 && at < static_cast<int64_t>(windows.size()) ? &windows[static_cast<size_t>(at)] : nullptr;
}

HeldMatrix::Part HeldMatrix::part(size_t rank) const {
  const MatrixWindow* const w = window(rank);
  if (w == nullptr) return {};
  const mesh::FlatRange shard =
      mesh::shard_range(group_elements, holders->shards, holders->places[rank].shard);
  const int64_t begin = std::max(shard.begin, w->in_group),
                end = std::min(shard.end, w->in_group + w->elements);
  return {*w, begin - w->in_group, std::max<int64_t>(0, end - begin)};
}

MatrixParts::MatrixParts(const nn::ParameterTable& table, const StateLayout& layout, int64_t rank,
                         const std::vector<int64_t>& stage_of)
    : table_(table), layout_(layout), rank_(rank) {
  const int64_t stage = layout.mesh().coordinate(rank, mesh::Axis::kPp);
  for (size_t i = 0; i < table.all().size(); ++i) {
    const nn::Parameter& p = table.all()[i];
    const bool here = stage_of.empty() || stage_of[static_cast<size_t>(p.block)] == stage;
    if (here && optim::takes_matrices(table.group_of(p))) find(p, static_cast<int32_t>(i));
  }
}

/// Adds the matrices of a parameter.
void MatrixParts::find(const nn::Parameter& p, int32_t number) {
  const mesh::DeviceMesh& mesh = layout_.mesh();
  const int64_t group_elements = table_.group_of(p).elements;
  const GroupedTensor t = in_group(p, group_elements, mesh, false);
  const mesh::PlacedTensor divided(mesh, {t.cut, {}}, p.shape);
  const std::vector<mesh::SubAxis> axes = axes_of(divided.layout(), mesh::Placement::kShard);
  std::vector<std::vector<mesh::Block>> shares;  // at most one block each
  for (int64_t s = 0; s < degree(mesh, axes); ++s) shares.push_back(divided.blocks(at(mesh, rank_, axes, s)));
  Matrix m{number, p.group};
  m.rows = p.shape[p.shape.size() - 2], m.columns = p.shape.back();
  for (int64_t first = 0; first < p.size; first += m.elements(), ++m.index) {
    const std::vector<int64_t>& rows = p.matrix_rows;
    if (!rows.empty()) m.rows = rows[static_cast<size_t>(m.index) % rows.size()];
    HeldMatrix held;
    held.matrix = m, held.group_elements = group_elements;
    const mesh::Box box = box_of(m, p.shape, first / m.columns);
    for (size_t s = 0; s < shares.size(); ++s) {
      const MatrixWindow window =
          shares[s].empty() ? MatrixWindow() : window_of(box, shares[s][0], p.shape.size() - 2, p.offset);
      if (window.elements == 0) continue;
      if (held.windows.empty()) held.first_share = static_cast<int64_t>(s);
      held.windows.push_back(window);
    }
    held.holders = holders(t, static_cast<int64_t>(shares.size()), held.first_share);
    all_.push_back(std::move(held));
  }
}

/// Returns the ranks that hold parts of a tensor; of divided experts, those that hold `share`.
const Holders* MatrixParts::holders(const GroupedTensor& t, int64_t shares, int64_t share) {
  const mesh::DeviceMesh& mesh = layout_.mesh();
  if (!t.experts) share = 0;
  const auto [found, is_new] = holders_.try_emplace({t.experts, shares, share});
  Holders& h = found->second;
  if (!is_new) return &h;
  const mesh::PlacedTensor state = layout_.state(t);
  const std::vector<mesh::SubAxis> divided = axes_of(state.layout(), mesh::Placement::kShard),
                                   flat = axes_of(state.layout(), mesh::Placement::kFlat);
  h.ranks = mesh::group(mesh, t.experts ? mesh.at(rank_, mesh::Axis::kEp, share) : rank_,
                        StateLayout::holder_axes(t.experts));
  for (const int64_t rank : h.ranks)
    h.places.push_back({coordinate(mesh, rank, divided), coordinate(mesh, rank, flat),
                        coordinate(mesh, rank, state.replicating_axes())});
  h.shards = degree(mesh, flat), h.copies = degree(mesh, state.replicating_axes());
  return &h;
}

}  // namespace hawser::parallel
