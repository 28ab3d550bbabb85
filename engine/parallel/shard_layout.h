// ShardLayout: what one rank keeps of every parameter group, and where inside the slots of its block. The
// planner sizes slots by it; the executor, the optimizer and checkpoints find their elements by it. Which
// elements those are follows from the layouts over the mesh (state_layout.h); this adds the bytes. With one
// part everything is whole, which is the serial layout.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/base/dtype.h"
#include "engine/nn/parameter.h"
#include "engine/parallel/state_layout.h"
#include "engine/plan/serial.h"

namespace hawser::parallel {

/// One group on this rank. Offsets are bytes from the start of the block's slot of that role.
struct GroupLayout {
  int64_t elements = 0;         ///< of the whole group
  int64_t shard = 0;            ///< elements of one shard, padding included
  int64_t secondary_shard = 0;  ///< likewise, of the smaller group; 0: there is none
  mesh::FlatRange owned;        ///< the real elements of this rank's shard
  mesh::FlatRange state;        ///< the elements whose master and moments are here: `owned`, or all
  DType type = DType::kF32;     ///< of weights, as compute reads them
  DType state_type =
      DType::kF32;          ///< of what the optimizer works on: masters (or weights), gradients, moments
  bool has_master = false;  ///< an f32 master stands beside the weights
  bool trainable = true;
  int64_t weights = 0, weight_shard = 0, secondary = 0;
  int64_t gradients = 0, gradient_shard = 0;
  int64_t shard_sums = 0;           ///< f32: sums of a shard on their way to its replicas
  int64_t gradient_window = 0;      ///< f32, where gradients are kept narrower than backwards write them
  int64_t master = 0, moments = 0;  ///< of element state.begin
};

class ShardLayout {
 public:
  struct Options {
    DType compute = DType::kF32;
    DType state =
        DType::kF32;  ///< bf16: weights, gradients and moments are all bf16, and nothing else is kept
    mesh::DeviceMesh mesh;
    int64_t rank = 0;           ///< in the world
    int64_t stage = 0;          ///< ZeRO
    int64_t reshard_group = 0;  ///< stage 3: ranks of the smaller group; 0: there is none
    int64_t moments = 2;
    bool training = true;
    bool gradient_buckets = false;     ///< whole gradients stand only while they are made and reduced
    bool own_gradient_shards = false;  ///< reduced gradients are kept apart from whole ones
  };
  ShardLayout(const nn::ParameterTable& table, const Options& options);

  const Options& options() const { return options_; }
  const GroupLayout& group(int32_t g) const { return groups_[static_cast<size_t>(g)]; }
  const std::vector<int32_t>& groups_of(int32_t block) const { return by_block_[static_cast<size_t>(block)]; }
  int32_t blocks() const { return static_cast<int32_t>(by_block_.size()); }
  /// Bytes of a block's slots.
  plan::BlockState block_state(int32_t block) const;

  /// Gradients are kept narrower than f32: backwards write them to a window, from which they are rounded.
  bool rounds_gradients() const { return options_.state != DType::kF32; }
  /// The layouts over the mesh that all this follows from.
  const StateLayout& over_mesh() const { return over_mesh_; }
  bool weights_sharded() const { return over_mesh_.weights_sharded(); }
  bool state_sharded() const { return over_mesh_.state_sharded(); }
  /// Shards of a reduction, and which of them is this rank's; likewise in the smaller group.
  int64_t parts() const { return degree(options_.mesh, over_mesh_.reduction().scatter); }
  int64_t index() const { return coordinate(options_.mesh, options_.rank, over_mesh_.reduction().scatter); }
  int64_t secondary_parts() const { return degree(options_.mesh, over_mesh_.secondary_axes()); }
  int64_t secondary_index() const {
    return coordinate(options_.mesh, options_.rank, over_mesh_.secondary_axes());
  }

  /// No rank with a smaller number keeps the same masters and moments. Owners count them in the norm.
  bool owns_state() const { return replica_ == 0; }
  /// Of a parameter (its index in the table), the elements that this rank writes to a checkpoint, maybe none.
  /// All ranks that keep the same share the work: what they keep, laid end to end, is cut into equal runs, so
  /// that all but a few parameters are written whole. One by one cut up, they would lie in ranks x parameters
  /// pieces.
  const mesh::FlatRange& to_write(size_t parameter) const { return to_write_.at(parameter); }
  /// The elements of a group whose master and moments are on `rank` of the world.
  mesh::FlatRange state_on(int32_t group, int64_t rank) const {
    return run_of(over_mesh_.state(whole_group(this->group(group).elements)), rank);
  }

 private:
  void share_writing(const nn::ParameterTable& table);
  Options options_;
  StateLayout over_mesh_;
  int64_t replicas_ = 1, replica_ = 0;  // ranks that keep the same state, and this one's place among them
  std::vector<GroupLayout> groups_;
  std::vector<mesh::FlatRange> to_write_;  // by parameter
  std::vector<std::vector<int32_t>> by_block_;
  std::vector<plan::BlockState> states_;
};

}  // namespace hawser::parallel
