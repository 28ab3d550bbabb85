// StateLayout: how the state of a tensor (weight, gradient, moments) is distributed over the mesh; only this
// class defines it. The stages of ZeRO (Rajbhandari et al., arXiv:1910.02054) differ in which of these
// layouts are sharded over dp_shard and cp. Experts that mesh.ep divides are sharded over edp instead, the
// ranks with the same experts, and their gradients are sums over edp. Arithmetic on the layouts (mesh/) gives
// the ranks that sum together and the elements that a rank keeps, counts in the norm and writes to a
// checkpoint.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/mesh/flat_shard.h"
#include "engine/mesh/placed_tensor.h"
#include "engine/nn/parameter.h"

namespace hawser::parallel {

/// A tensor and its place in its parameter group. Groups are the unit of sharding. Offsets and elements are
/// those on one rank; the shape is that of the full tensor.
struct GroupedTensor {
  std::vector<int64_t> shape;
  int64_t offset = 0;  ///< offset of its first element in the group
  int64_t group_elements = 0;
  std::vector<mesh::Entry> cut = {};       ///< how the model axes divide it; empty: every rank has all of it
  std::vector<mesh::SubAxis> summed = {};  ///< model axes along which its gradient is left as a sum
  std::vector<int64_t> stages = {};        ///< pipeline stages that have it; empty: all
  bool experts = false;                    ///< divided over ep
};
/// Returns a parameter of a group of `group_elements` elements, on a mesh with as many tensor-parallel ranks
/// as the parameter's table.
GroupedTensor in_group(const nn::Parameter& p, int64_t group_elements, const mesh::DeviceMesh& mesh,
                       bool sequence_parallel);
/// Returns a group as a one-dimensional tensor.
inline GroupedTensor whole_group(int64_t elements, bool experts = false) {
  GroupedTensor t{{elements}, 0, elements};
  t.experts = experts;
  return t;
}
/// Returns a group as a one-dimensional tensor with its shares one after the other, to find the ranks that
/// hold the same share.
GroupedTensor whole_group(const nn::ParameterGroup& group, const mesh::DeviceMesh& mesh);

/// The transfers that turn a backward's gradient into the optimizer's input: the difference of the two
/// layouts (mesh/reduction.h), as instructions of the plan. A full sum on every rank is a reduce_scatter
/// followed by an all_gather.
struct GradientReduction {
  /// REDUCE_GRAD: each rank gets its shard of the sum; empty for one rank.
  std::vector<mesh::SubAxis> scatter;
  std::vector<mesh::SubAxis> across;  ///< REDUCE_REPLICAS: sums shards; empty without replicas
  bool gather = false;                ///< GATHER_GRAD along `scatter`: assembles full sums
};

class StateLayout {
 public:
  /// `reshard_group` is the number of ranks that keep a secondary copy of weights after a forward (stage 3).
  /// It divides dp_shard; 0 means none.
  StateLayout(const mesh::DeviceMesh& mesh, int64_t stage, int64_t reshard_group);

  const mesh::DeviceMesh& mesh() const { return mesh_; }
  const GradientReduction& reduction(bool experts = false) const { return of(experts).reduction; }
  /// Ranks along these axes read different samples, or different columns of the same samples (cp). Each
  /// gradient is a sum over them. Ranks with the same experts receive rows of all samples.
  static std::vector<mesh::SubAxis> data_axes(bool experts = false) {
    if (experts) return {mesh::Axis::kEdp};
    return {mesh::Axis::kDpReplicate, mesh::Axis::kDpShard, mesh::Axis::kCp};
  }
  /// The ranks along these axes hold all parts and copies of each tensor.
  static std::vector<mesh::SubAxis> holder_axes(bool experts) {
    std::vector<mesh::SubAxis> axes = data_axes(experts);
    if (!experts) axes.push_back(mesh::Axis::kTp);
    return axes;
  }
  const std::vector<mesh::SubAxis>& secondary_axes() const { return secondary_; }
  bool weights_sharded() const { return degree(mesh_, of(false).weights) > 1; }
  bool state_sharded() const { return degree(mesh_, of(false).state) > 1; }

  /// Returns the layout of the weights between uses.
  mesh::PlacedTensor weights(const GroupedTensor& t) const { return cut(of(t.experts).weights, t); }
  /// Returns the layout of the weights' copy that a secondary shard group keeps from a forward to its
  /// backward.
  mesh::PlacedTensor secondary(const GroupedTensor& t) const { return cut(secondary_, t); }
  /// Returns the layout of the gradient after the backward: a partial sum over all samples, and over the part
  /// that each rank of a model axis covers.
  mesh::PlacedTensor gradient(const GroupedTensor& t) const;
  /// Returns the model axes over which that gradient is summed before reduction(); empty if it is complete
  /// there.
  std::vector<mesh::SubAxis> model_sum(const GroupedTensor& t) const;
  /// Returns the layout of the result of REDUCE_GRAD, before the sum over replicas.
  mesh::PlacedTensor parts(const GroupedTensor& t) const { return cut(of(t.experts).reduction.scatter, t); }
  /// Returns the layout of the reduced gradient, masters and moments. They are equal, so an update needs no
  /// communication.
  mesh::PlacedTensor state(const GroupedTensor& t) const { return cut(of(t.experts).state, t); }

 private:
  /// Axes of sharding; empty if every rank has everything.
  struct Kind {
    std::vector<mesh::SubAxis> weights, state;
    GradientReduction reduction;
  };
  const Kind& of(bool experts) const { return kinds_[experts ? 1 : 0]; }
  mesh::PlacedTensor cut(const std::vector<mesh::SubAxis>& axes, const GroupedTensor& t) const;

  mesh::DeviceMesh mesh_;
  Kind kinds_[2];  // for parameters that all ranks have, and for experts
  std::vector<mesh::SubAxis> secondary_;
};

/// Returns the range of elements of a one-dimensional tensor that `rank` holds. For a rank with only padding
/// it is empty, at the end.
mesh::FlatRange run_of(const mesh::PlacedTensor& tensor, int64_t rank);

}  // namespace hawser::parallel
