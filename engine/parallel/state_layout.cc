#include "engine/parallel/state_layout.h"

#include "engine/base/error.h"
#include "engine/mesh/reduction.h"

namespace hawser::parallel {
namespace {

using Kind = mesh::ReduceStep::Kind;

GradientReduction as_transfers(const std::vector<mesh::ReduceStep>& steps) {
  GradientReduction r;
  if (steps.empty()) return r;
  r.scatter = steps[0].axes;
  r.gather = steps[0].kind == Kind::kSum;
  HWS_CHECK(steps.size() == 1 || (steps.size() == 2 && !r.gather && steps[1].kind == Kind::kSum));
  if (steps.size() == 2) r.across = steps[1].axes;
  return r;
}

}  // namespace

StateLayout::StateLayout(const mesh::DeviceMesh& mesh, int64_t stage, int64_t reshard_group) : mesh_(mesh) {
  using mesh::Axis;
  if (stage >= 1) state_ = {Axis::kDpShard};
  if (stage >= 3) weights_ = {Axis::kDpShard};
  if (weights_sharded() && reshard_group > 0)
    secondary_ = {inner_half(Axis::kDpShard, mesh.degree(Axis::kDpShard) / reshard_group)};
  const GroupedTensor any = whole_group(mesh::kShardAlign);  // the steps do not depend on sizes
  reduction_ = as_transfers(mesh::reduction(mesh, gradient(any).layout(), state(any).layout()));
}

mesh::PlacedTensor StateLayout::gradient(const GroupedTensor& t) const {
  return {mesh_, {{mesh::partial(data_axes())}, {}}, t.shape};
}

mesh::PlacedTensor StateLayout::cut(const std::vector<mesh::SubAxis>& axes, const GroupedTensor& t) const {
  if (degree(mesh_, axes) == 1) return {mesh_, {}, t.shape};
  return {mesh_, {{mesh::flat(axes, t.offset, t.group_elements)}, {}}, t.shape};
}

mesh::FlatRange run_of(const mesh::PlacedTensor& tensor, int64_t rank) {
  const std::vector<mesh::Block> blocks = tensor.blocks(rank);
  if (blocks.empty()) return {tensor.shape()[0], tensor.shape()[0]};
  return {blocks[0].box.begin[0], blocks[0].box.end[0]};
}

}  // namespace hawser::parallel
