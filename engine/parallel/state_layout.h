// StateLayout: how the state of a tensor (weight, gradient, moments) is spread over the mesh, declared here
// and nowhere else. The stages of ZeRO (Rajbhandari et al., arXiv 1910.02054) differ in which of these
// layouts are cut over dp_shard. Arithmetic on the layouts (mesh/) tells which ranks sum together, and which
// elements a rank keeps, counts in the norm and writes to a checkpoint.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/mesh/flat_shard.h"
#include "engine/mesh/placed_tensor.h"

namespace hawser::parallel {

/// A tensor, and where it lies in its parameter group: groups are what is cut.
struct GroupedTensor {
  std::vector<int64_t> shape;
  int64_t offset = 0;  ///< of its first element in the group
  int64_t group_elements = 0;
};
/// A group as a tensor of one dim.
inline GroupedTensor whole_group(int64_t elements) { return {{elements}, 0, elements}; }

/// The transfers that make of the gradient that a backward leaves what the optimizer works on: the difference
/// of the two layouts (mesh/reduction.h), in the plan's instructions. A sum that everyone wants whole is a
/// reduce_scatter and an all_gather.
struct GradientReduction {
  std::vector<mesh::SubAxis> scatter;  ///< REDUCE_GRAD: each rank gets its part of the sum; empty: one rank
  std::vector<mesh::SubAxis> across;   ///< REDUCE_REPLICAS: parts are summed; empty: there are no replicas
  bool gather = false;                 ///< GATHER_GRAD along `scatter`: parts become whole again
};

class StateLayout {
 public:
  /// `reshard_group`: ranks that keep a secondary copy of weights after a forward (stage 3); divides
  /// dp_shard; 0: none.
  StateLayout(const mesh::DeviceMesh& mesh, int64_t stage, int64_t reshard_group);

  const mesh::DeviceMesh& mesh() const { return mesh_; }
  const GradientReduction& reduction() const { return reduction_; }
  /// Ranks along them see different samples.
  static std::vector<mesh::SubAxis> data_axes() { return {mesh::Axis::kDpReplicate, mesh::Axis::kDpShard}; }
  const std::vector<mesh::SubAxis>& secondary_axes() const { return secondary_; }
  bool weights_sharded() const { return degree(mesh_, weights_) > 1; }
  bool state_sharded() const { return degree(mesh_, state_) > 1; }

  /// Weights between their uses.
  mesh::PlacedTensor weights(const GroupedTensor& t) const { return cut(weights_, t); }
  /// The copy of weights that a group of ranks keeps from a forward to its backward.
  mesh::PlacedTensor secondary(const GroupedTensor& t) const { return cut(secondary_, t); }
  /// The gradient as the backward leaves it: a sum over everyone's samples is meant.
  mesh::PlacedTensor gradient(const GroupedTensor& t) const;
  /// What REDUCE_GRAD leaves, up to the sum over replicas.
  mesh::PlacedTensor parts(const GroupedTensor& t) const { return cut(reduction_.scatter, t); }
  /// The reduced gradient as norm and optimizer read it, masters and moments: all alike, so that an update
  /// moves nothing.
  mesh::PlacedTensor state(const GroupedTensor& t) const { return cut(state_, t); }

 private:
  mesh::PlacedTensor cut(const std::vector<mesh::SubAxis>& axes, const GroupedTensor& t) const;

  mesh::DeviceMesh mesh_;
  std::vector<mesh::SubAxis> weights_, secondary_, state_;  // along which it is cut; empty: everyone has all
  GradientReduction reduction_;
};

/// The run of elements that `rank` holds of a tensor of one dim; at its end, and empty, where that is
/// padding.
mesh::FlatRange run_of(const mesh::PlacedTensor& tensor, int64_t rank);

}  // namespace hawser::parallel
