#include "engine/parallel/state_layout.h"

#include "engine/base/error.h"
#include "engine/mesh/reduction.h"

namespace hawser::parallel {
namespace {

using Kind = mesh::ReduceStep::Kind;

/// Returns the sums over data axes. Sums over model axes are the same at every stage but not for every
/// tensor; they come first, as transfers of their own (ShardLayout::model_sums).
GradientReduction as_transfers(const std::vector<mesh::ReduceStep>& steps) {
  GradientReduction r;
  if (steps.empty()) return r;
  r.scatter = steps[0].axes;
  r.gather = steps[0].kind == Kind::kSum;
  HWS_CHECK(steps.size() == 1 || (steps.size() == 2 && !r.gather && steps[1].kind == Kind::kSum));
  if (steps.size() == 2) r.across = steps[1].axes;
  return r;
}

/// Returns the part of tp whose ranks have different shares.
std::vector<mesh::SubAxis> shares_axes(int64_t shares, int64_t tp) {
  return {shares == tp ? mesh::SubAxis(mesh::Axis::kTp) : outer_half(mesh::Axis::kTp, shares)};
}

}  // namespace

StateLayout::StateLayout(const mesh::DeviceMesh& mesh, int64_t stage, int64_t reshard_group) : mesh_(mesh) {
  using mesh::Axis;
  const int64_t replicas = mesh.degree(Axis::kDpReplicate);
  for (const bool experts : {false, true}) {
    Kind& kind = kinds_[experts ? 1 : 0];
    std::vector<mesh::SubAxis> shards = {Axis::kDpShard, Axis::kCp};
    if (experts) shards = {replicas > 1 ? inner_half(Axis::kEdp, replicas) : Axis::kEdp};
    if (stage >= 1) kind.state = shards;
    if (stage >= 3) kind.weights = shards;
    const GroupedTensor any = whole_group(mesh::kShardAlign, experts);  // the steps do not depend on sizes
    kind.reduction = as_transfers(mesh::reduction(mesh, gradient(any).layout(), state(any).layout()));
    if (mesh.degree(Axis::kEp) == 1) break;
    // If one rank alone has an expert, its transfers with itself must move what the transfers of other ranks
    // move.
    if (degree(mesh, shards) > 1 || (stage == 0 && !kind.reduction.scatter.empty())) continue;
    kind.reduction = {stage == 0 ? data_axes(experts) : shards, {}, stage == 0};
    if (stage > 0 && replicas > 1) kind.reduction.across = {outer_half(Axis::kEdp, replicas)};
  }
  if (weights_sharded() && reshard_group > 0)
    secondary_ = {inner_half(Axis::kDpShard, mesh.degree(Axis::kDpShard) / reshard_group)};
}

mesh::PlacedTensor StateLayout::gradient(const GroupedTensor& t) const {
  std::vector<mesh::Entry> entries = t.cut;
  entries.push_back(mesh::partial(data_axes(t.experts)));
  if (!t.summed.empty()) entries.push_back(mesh::partial(t.summed));
  return {mesh_, {std::move(entries), t.stages}, t.shape};
}

std::vector<mesh::SubAxis> StateLayout::model_sum(const GroupedTensor& t) const {
  for (const mesh::ReduceStep& step : mesh::reduction(mesh_, gradient(t).layout(), state(t).layout()))
    if (step.axes.front().axis == mesh::Axis::kTp) return step.axes;
  return {};
}

mesh::PlacedTensor StateLayout::cut(const std::vector<mesh::SubAxis>& axes, const GroupedTensor& t) const {
  std::vector<mesh::Entry> entries = t.cut;
  if (degree(mesh_, axes) > 1) entries.push_back(mesh::flat(axes, t.offset, t.group_elements));
  return {mesh_, {std::move(entries), t.stages}, t.shape};
}

GroupedTensor in_group(const nn::Parameter& p, int64_t group_elements, const mesh::DeviceMesh& mesh,
                       bool sequence_parallel) {
  using mesh::Axis;
  const int64_t tp = mesh.degree(Axis::kTp), shares = p.cut.shares(tp, 1);
  GroupedTensor t{p.shape, p.offset, group_elements};
  t.experts = p.cut.experts;
  if (t.experts) t.cut = {mesh::shard({Axis::kEp}, p.cut.dim, p.cut.pieces)};
  if (tp == 1 || t.experts) return t;
  if (p.cut.dim >= 0) {
    if (shares > 1) t.cut = {mesh::shard(shares_axes(shares, tp), p.cut.dim, p.cut.pieces)};
    if (shares < tp) t.summed = {shares > 1 ? inner_half(Axis::kTp, shares) : Axis::kTp};
  }
  if (p.covers == nn::GradientCoverage::kOwnHeads ||
      (p.covers == nn::GradientCoverage::kOwnRows && sequence_parallel))
    t.summed = {Axis::kTp};
  return t;
}

GroupedTensor whole_group(const nn::ParameterGroup& group, const mesh::DeviceMesh& mesh) {
  GroupedTensor t = whole_group(group.elements, group.experts);
  if (group.shares == 1) return t;
  t.shape = {group.shares * group.elements};
  std::vector<mesh::SubAxis> over = {mesh::Axis::kEp};
  if (!group.experts) over = shares_axes(group.shares, mesh.degree(mesh::Axis::kTp));
  t.cut = {mesh::shard(std::move(over), 0, group.shares)};
  return t;
}

mesh::FlatRange run_of(const mesh::PlacedTensor& tensor, int64_t rank) {
  const std::vector<mesh::Block> blocks = tensor.blocks(rank);
  if (blocks.empty()) return {tensor.shape()[0], tensor.shape()[0]};
  return {blocks[0].box.begin[0], blocks[0].box.end[0]};
}

}  // namespace hawser::parallel
