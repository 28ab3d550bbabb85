// ShardLayout: what one rank stores of every parameter group, and at which offset in the slots of its block.
// The planner sizes slots with it; the executor, the optimizer and checkpoints find their elements with it.
// state_layout.h decides which elements a rank stores; this class adds the bytes. With one part nothing is
// sharded, which is the serial layout.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "engine/base/dtype.h"
#include "engine/mesh/element_run.h"
#include "engine/nn/parameter.h"
#include "engine/optim/update.h"
#include "engine/parallel/matrix_homes.h"
#include "engine/parallel/state_layout.h"
#include "engine/plan/serial.h"

namespace hawser::parallel {

/// One group on this rank. Offsets are bytes from the start of the block's slot with that role.
struct GroupLayout {
  /// True for the tied-head replica of the embedding's table on the head's stage: weights, and a gradient
  /// that is sent away.
  bool copy = false;
  bool here = true;             ///< false: another stage of the pipeline has it; only `elements` is valid
  int64_t elements = 0;         ///< elements of the full group
  int64_t shard = 0;            ///< elements of one shard, padding included
  int64_t secondary_shard = 0;  ///< like shard, for the secondary shard group; 0 without one
  mesh::FlatRange owned;        ///< elements of this rank's shard, without padding
  mesh::FlatRange state;        ///< elements whose master and moments are on this rank: `owned`, or all
  DType type = DType::kF32;     ///< data type of compute weights
  DType state_type =
      /// Data type of the gradients and of what the optimizer updates: masters, or weights without masters.
      DType::kF32;
  bool has_master = false;  ///< masters are stored in addition to the weights
  bool trainable = true;
  bool borrowed =
      false;  ///< its weights, or its shard, belong to another engine and have no place in the slots
  bool experts = false;          ///< divided over ep
  bool products = false;         ///< products read its weights; their gradients may be sent in records
  int64_t parts = 1, index = 0;  ///< number of shards of a reduction, and index of this rank's
  int64_t weights = 0, weight_shard = 0, secondary = 0;
  int64_t scales = 0;  ///< only for kNf4: offset in the slot of all groups' scales
  int64_t gradients = 0, gradient_shard = 0;
  int64_t shard_sums = 0;       ///< f32 sums of a shard, before replicas are added
  int64_t gradient_window = 0;  ///< f32 gradients before rounding, if stored gradients are narrower
  int64_t master = 0;           ///< offset of element state.begin
  /// An array of the optimizer (a row of plan::kStates): its type, and the offset of element state.begin.
  struct KeptState {
    bool kept = false;
    DType type = DType::kF32;
    int64_t at = 0;
    /// Returns the bytes of n elements; 0 if the array is not kept.
    int64_t bytes(int64_t n) const { return kept ? dtype_bytes(type, n) : 0; }
    /// The same in checkpoints.
    int64_t saved_bytes(int64_t n) const { return kept ? dtype_bytes(optim::saved_type(type), n) : 0; }
  };
  std::array<KeptState, plan::kStateCount> states = {};
  int64_t host_gradients = 0;  ///< offset of element state.begin in kHostGradients
  int64_t host_weights = 0;    ///< the same in kHostWeights, if the weights are narrower than the master
  /// Model axes over which the backward leaves the gradient as a sum; empty if each rank has the full
  /// gradient.
  std::vector<mesh::SubAxis> model_sum;
  std::vector<mesh::SubAxis> replica_axes;  ///< axes along which ranks keep the same masters and moments
  int64_t replicas = 1, replica = 0;        ///< number of those ranks, and this rank's index among them

  /// True if a backward on this rank writes the gradient. A tied-head replica sends its gradient to the
  /// table's stage.
  bool has_gradient() const { return trainable || copy; }
  /// True if no lower rank keeps the same masters and moments. Only owners count them in the norm.
  bool owns_state() const { return replica == 0; }
  void keep(const optim::StateTypes& types) {
    for (size_t s = 0; s < types.size(); ++s)
      if (types[s]) states[s].kept = true, states[s].type = *types[s];
  }
  /// Returns the number of arrays that the optimizer keeps.
  int64_t kept_states() const {
    return std::ranges::count_if(states, [](const KeptState& s) { return s.kept; });
  }
  /// True if the compute weights have another type than what the optimizer updates.
  bool narrows() const { return type != state_type; }
};

/// A sum over model axes that gradients of some groups need before they are summed over data-parallel ranks.
struct ModelSum {
  plan::Op op =
      plan::Op::kReduceTp;  ///< kReduceTp: all of tp; kReduceKv: ranks with the same key/value heads
  std::vector<mesh::SubAxis> axes;
  int64_t ranks = 1;
};

class ShardLayout {
 public:
  struct Options {
    DType compute = DType::kF32;
    DType state = DType::kF32;  ///< bf16: weights and gradients are all bf16, without masters
    mesh::DeviceMesh mesh;
    int64_t rank = 0;                 ///< rank in the world
    int64_t stage = 0;                ///< ZeRO stage
    int64_t reshard_group = 0;        ///< ranks of the secondary shard group (stage 3); 0 without one
    optim::StatesByKind states = {};  ///< arrays that each kind of optimizer keeps
    bool training = true;
    bool sequence_parallel = false;    ///< tensor-parallel ranks divide the rows between products
    bool gradient_buckets = false;     ///< full gradients exist only until they are reduced
    bool own_gradient_shards = false;  ///< reduced gradients have their own place
    /// The pipeline stage that has each block; empty if there is only one stage.
    std::vector<int64_t> stage_of = {};
    bool shares_table = false;       ///< head or loss read the embedding's table
    bool base_elsewhere = false;     ///< checkpoints omit the frozen base weights of an adapter
    bool base_borrowed = false;      ///< the base weights belong to another engine
    bool rounds_in_kernels = false;  ///< kernels of layers round the gradients that they write
    bool host_update = false;        ///< the host's processor updates state in host memory (host_update.h)
    bool host_masters = false;  ///< it keeps masters of all trained weights, because others are elsewhere
  };
  ShardLayout(const nn::ParameterTable& table, const Options& options);

  const Options& options() const { return options_; }
  const GroupLayout& group(int32_t g) const { return groups_[static_cast<size_t>(g)]; }
  /// The groups of a block that this rank has; none if another stage has the block.
  const std::vector<int32_t>& groups_of(int32_t block) const { return by_block_[static_cast<size_t>(block)]; }
  int32_t blocks() const { return static_cast<int32_t>(by_block_.size()); }
  /// Returns the bytes of the scales of all groups on this rank.
  int64_t scales_bytes() const { return scales_bytes_; }
  /// Returns the bytes of a block's slots.
  plan::BlockState block_state(int32_t block) const;

  /// True if gradients are stored narrower than f32.
  bool rounds_gradients() const { return options_.state != DType::kF32; }
  /// True if the block's gradients are rounded from a window: not if they are f32, nor if the block's kernels
  /// round what they write.
  bool has_window(int32_t block) const {
    const bool layer = block > 0 && block + 1 < blocks();
    return rounds_gradients() && !(options_.rounds_in_kernels && layer);
  }
  /// True if the head's stage reads the embedding's table and is another stage.
  bool table_travels() const {
    return options_.shares_table && !options_.stage_of.empty() &&
           options_.stage_of.front() != options_.stage_of.back();
  }
  /// True if this rank has the table or its replica, and sends or receives it.
  bool exchanges_table() const {
    const GroupLayout& g = group(table_.group);
    return table_travels() && g.here && !g.borrowed;
  }
  /// The embedding's table in its group: offset from the group's first element, and number of elements.
  struct Table {
    int32_t group = 0;
    int64_t offset = 0, elements = 0;
  };
  const Table& table() const { return table_; }
  /// Number of elements of the table's group that a rank exchanges with its peer on the head's stage.
  int64_t table_share() const {
    const GroupLayout& g = group(table_.group);
    return state_sharded() ? g.shard : g.elements;
  }
  /// Where matrices that an optimizer updates as a whole are gathered.
  const MatrixHomes& matrices() const { return matrices_; }
  /// The layouts over the mesh from which everything here follows.
  const StateLayout& over_mesh() const { return over_mesh_; }
  bool weights_sharded() const { return over_mesh_.weights_sharded(); }
  bool state_sharded() const { return over_mesh_.state_sharded(); }
  /// Elements of a group's masters and moments on each rank, padding included.
  int64_t state_elements(const GroupLayout& g) const { return state_sharded() ? g.shard : g.elements; }
  /// True if steps move the biases of the block's router.
  bool balances(int32_t block) const { return balances_[static_cast<size_t>(block)]; }
  /// True if a rank has the masters and moments of all parameters.
  bool state_is_whole() const {
    return !state_sharded() && options_.mesh.degree(mesh::Axis::kTp) * options_.mesh.degree(mesh::Axis::kPp) *
                                       options_.mesh.degree(mesh::Axis::kEp) ==
                                   1;
  }
  /// The sums over model axes that gradients need, in the order of their ops. Empty for one tensor-parallel
  /// rank.
  const std::vector<ModelSum>& model_sums() const { return model_sums_; }
  /// Returns the transfers that these blocks need: false (groups on all ranks), true (experts divided by
  /// mesh.ep), or both. Empty if every group is borrowed unsharded.
  std::vector<bool> transfer_kinds(const std::vector<int32_t>& blocks) const;
  bool has_experts(int32_t block) const {
    const std::vector<bool> kinds = transfer_kinds({block});
    return !kinds.empty() && kinds.back();
  }
  /// True if a transfer by `sum` includes gradients of that group.
  static bool takes(const ModelSum& sum, const GroupLayout& group) {
    return group.trainable && group.model_sum == sum.axes;
  }
  /// Return the number of shards of a reduction, and of the secondary shard group with this rank's index.
  int64_t parts(bool experts = false) const {
    return degree(options_.mesh, over_mesh_.reduction(experts).scatter);
  }
  int64_t secondary_parts() const { return degree(options_.mesh, over_mesh_.secondary_axes()); }
  int64_t secondary_index() const {
    return coordinate(options_.mesh, options_.rank, over_mesh_.secondary_axes());
  }

  /// Returns the elements of parameter number `parameter` of the table that this rank writes to a checkpoint,
  /// as in state_of; may be none. Ranks that keep the same elements share the work: the concatenation of
  /// their elements is split into equal ranges, so that nearly all parameters are written in one piece.
  /// Splitting each parameter would give ranks x parameters pieces.
  std::vector<mesh::ElementRun> to_write(const nn::Parameter& p, size_t parameter) const;
  int64_t elements_to_write(size_t parameter) const { return to_write_.at(parameter).size(); }
  /// Returns the part of a parameter with which this rank computes, from the start of its room in its group;
  /// padding follows. Empty if the room is all padding.
  mesh::Box share_of(const nn::Parameter& p) const;
  /// Returns the elements of a parameter whose master and moments are on `rank` of the world; `at` counts
  /// from the first element of its group on that rank (GroupLayout::state.begin).
  std::vector<mesh::ElementRun> state_of(const nn::Parameter& p, int64_t rank) const;

 private:
  void place_window(GroupLayout* group, plan::BlockState* slots) const;
  void place(GroupLayout* group, int64_t state_elements, int64_t block, plan::BlockState* slots) const;
  bool has(int64_t block) const;
  mesh::PlacedTensor placed_state(const nn::Parameter& p) const;
  void find_model_sums(const nn::ParameterTable& table);
  void share_writing(const nn::ParameterTable& table);
  void find_balances(const nn::ParameterTable& table);
  Options options_;
  StateLayout over_mesh_;
  MatrixHomes matrices_;
  Table table_;
  int64_t scales_bytes_ = 0;
  std::vector<GroupLayout> groups_;
  std::vector<ModelSum> model_sums_;
  // Indexed by parameter: a range of the elements that this rank keeps, numbered in their order.
  std::vector<mesh::FlatRange> to_write_;
  std::vector<std::vector<int32_t>> by_block_;
  std::vector<plan::BlockState> states_;
  std::vector<bool> balances_;  // indexed by block
};

}  // namespace hawser::parallel
