#include "engine/mesh/placed_tensor.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "engine/base/error.h"
#include "engine/mesh/flat_shard.h"

namespace hawser::mesh {
namespace {

/// The sub-axes except pp over which the layout does not divide the tensor, outermost first.
std::vector<SubAxis> axes_without_cut(const Layout& layout) {
  std::vector<SubAxis> cut;
  bool expert = false;
  for (const Entry& entry : layout.entries) {
    for (const SubAxis& axis : entry.axes) expert = expert || is_expert_axis(axis.axis);
    if (is_cut(entry)) cut.insert(cut.end(), entry.axes.begin(), entry.axes.end());
  }
  std::vector<SubAxis> rest;
  for (size_t i = static_cast<size_t>(expert ? Axis::kEdp : Axis::kDpReplicate);
       i < static_cast<size_t>(expert ? Axis::kCount : Axis::kEdp); ++i) {
    const Axis axis = static_cast<Axis>(i);
    const auto named = [&](const SubAxis& sub) {
      return std::find(cut.begin(), cut.end(), sub) != cut.end();
    };
    const auto any =
        std::find_if(cut.begin(), cut.end(), [&](const SubAxis& sub) { return sub.axis == axis; });
    if (any == cut.end()) {
      rest.push_back(axis);
    } else if (any->half != Half::kWhole) {
      for (const SubAxis& half : {outer_half(axis, any->outer_degree), inner_half(axis, any->outer_degree)}) {
        if (!named(half)) rest.push_back(half);
      }
    }
  }
  return rest;
}

int64_t product(const Index& extents) { return extents[0] * extents[1] * extents[2] * extents[3]; }

}  // namespace

PlacedTensor::PlacedTensor(DeviceMesh mesh, Layout layout, std::vector<int64_t> shape)
    : mesh_(std::move(mesh)), layout_(std::move(layout)), shape_(std::move(shape)) {
  check_layout(mesh_, layout_, shape_);
  for (size_t d = 0; d < shape_.size(); ++d) room_[d] = global_.end[d] = shape_[d];
  for (size_t i = 0; i < layout_.entries.size(); ++i) {
    const Entry& entry = layout_.entries[i];
    if (entry.placement != Placement::kShard) continue;
    const size_t dim = static_cast<size_t>(entry.dim);
    const int64_t length = entry.pieces == 0 ? 1 : shape_[dim] / entry.pieces;
    const int64_t ranks = degree(mesh_, entry.axes);
    room_[dim] = (room_[dim] / length + ranks - 1) / ranks * length;
    cuts_.push_back({i, dim, room_[dim]});
  }
  replicating_axes_ = axes_without_cut(layout_);
  stages_ = layout_.stages;
  if (stages_.empty()) {
    stages_.resize(static_cast<size_t>(mesh_.degree(Axis::kPp)));
    std::iota(stages_.begin(), stages_.end(), 0);
  }
}

const Entry* PlacedTensor::flat() const {
  for (const Entry& entry : layout_.entries) {
    if (entry.placement == Placement::kFlat) return &entry;
  }
  return nullptr;
}

std::vector<int64_t> PlacedTensor::local_shape() const {
  return {room_.begin(), room_.begin() + static_cast<std::ptrdiff_t>(shape_.size())};
}

int64_t PlacedTensor::local_elements() const {
  const Entry* buffer = flat();
  return buffer == nullptr ? product(room_)
                           : shard_elements(buffer->buffer_elements, degree(mesh_, buffer->axes));
}

bool PlacedTensor::has_place(int64_t rank) const {
  return rank >= 0 && rank < mesh_.world_size() &&
         std::binary_search(stages_.begin(), stages_.end(), mesh_.coordinate(rank, Axis::kPp));
}

Box PlacedTensor::local_box(int64_t rank) const {
  Box box = global_;
  for (const Cut& cut : cuts_) {
    // A rank's space may extend past the end of the enclosing share: that part is padding and belongs to the
    // next rank.
    box.begin[cut.dim] += coordinate(mesh_, rank, layout_.entries[cut.entry].axes) * cut.share;
    box.end[cut.dim] = std::min(box.end[cut.dim], box.begin[cut.dim] + cut.share);
  }
  return box;
}

std::vector<Block> PlacedTensor::blocks(int64_t rank) const {
  if (!has_place(rank)) return {};
  const Box local = local_box(rank);
  const Index strides = row_major_strides(room_);
  int64_t run_begin = 0, run_end = product(room_), memory_begin = 0;
  if (const Entry* buffer = flat()) {
    const FlatRange range = shard_range(buffer->buffer_elements, degree(mesh_, buffer->axes),
                                        coordinate(mesh_, rank, buffer->axes));
    memory_begin = range.begin - buffer->offset;  // in elements of the local tensor; may lie before or after
                                                  // it
    run_begin = std::max(run_begin, range.begin - buffer->offset);
    run_end = std::min(run_end, range.end - buffer->offset);
  }
  std::vector<Block> held;
  for (Box box : boxes_of_run(room_, run_begin, run_end)) {
    Block block;
    block.offset = -memory_begin;
    for (size_t d = 0; d < kMostDims; ++d) {
      block.offset += box.begin[d] * strides[d];
      box.begin[d] += local.begin[d];
      box.end[d] += local.begin[d];
    }
    block.box = intersection(box, local);
    block.strides = strides;
    if (!block.box.is_empty()) held.push_back(block);
  }
  return held;
}

std::vector<int64_t> PlacedTensor::replicas(int64_t rank) const {
  HWS_CHECK(has_place(rank));
  std::vector<int64_t> ranks;
  for (const int64_t stage : stages_) {
    const std::vector<int64_t> same =
        group(mesh_, mesh_.at(rank, Axis::kPp, stage), std::span<const SubAxis>(replicating_axes_));
    ranks.insert(ranks.end(), same.begin(), same.end());
  }
  return ranks;
}

int64_t PlacedTensor::owner(int64_t rank) const {
  HWS_CHECK(has_place(rank));
  return at(mesh_, mesh_.at(rank, Axis::kPp, stages_.front()), std::span<const SubAxis>(replicating_axes_),
            0);
}

std::vector<int64_t> PlacedTensor::owners() const {
  std::vector<int64_t> ranks;
  for (int64_t rank = 0; rank < mesh_.world_size(); ++rank) {
    if (is_owner(rank)) ranks.push_back(rank);
  }
  return ranks;
}

int64_t PlacedTensor::owner_of(std::span<const int64_t> index) const {
  Index local{};
  for (size_t d = 0; d < shape_.size(); ++d) {
    if (index.size() != shape_.size() || index[d] < 0 || index[d] >= shape_[d])
      fail(Code::kOutOfRange, "layout: an index outside of the tensor (dim {} has {} elements)", d,
           shape_[d]);
    local[d] = index[d];
  }
  int64_t rank = mesh_.at(0, Axis::kPp, stages_.front());
  for (const Cut& cut : cuts_) {
    rank = at(mesh_, rank, std::span<const SubAxis>(layout_.entries[cut.entry].axes),
              local[cut.dim] / cut.share);
    local[cut.dim] %= cut.share;
  }
  if (const Entry* buffer = flat()) {
    const Index strides = row_major_strides(room_);
    int64_t position = buffer->offset;
    for (size_t d = 0; d < kMostDims; ++d) position += local[d] * strides[d];
    rank = at(mesh_, rank, std::span<const SubAxis>(buffer->axes), position / local_elements());
  }
  return rank;
}

std::vector<int64_t> PlacedTensor::holders_of(std::span<const int64_t> index) const {
  return replicas(owner_of(index));
}

}  // namespace hawser::mesh
