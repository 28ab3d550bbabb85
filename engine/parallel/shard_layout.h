// ShardLayout: what one rank keeps of every parameter group, and where inside the slots of its block. The
// planner sizes slots by it, the executor, the optimizer and checkpoints find their elements by it, so it is
// said once. ZeRO (Rajbhandari et al., arXiv 1910.02054): stage 1 shards masters and moments, stage 2
// gradients too, stage 3 weights too. One part: everything is whole, which is the serial layout.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/base/dtype.h"
#include "engine/mesh/flat_shard.h"
#include "engine/nn/parameter.h"
#include "engine/plan/serial.h"

namespace hawser::parallel {

/// One group on this rank. Offsets are bytes from the start of the block's slot of that role.
struct GroupLayout {
  int64_t elements = 0;   ///< of the whole group
  int64_t shard = 0;      ///< elements of one shard, padding included
  mesh::FlatRange owned;  ///< the real elements of this rank's shard
  mesh::FlatRange state;  ///< the elements whose master and moments are here: `owned`, or all
  DType type = DType::kF32;
  bool has_master = false;  ///< an f32 master stands beside the weights
  bool trainable = true;
  int64_t weights = 0, weight_shard = 0, secondary = 0;
  int64_t gradients = 0, gradient_shard = 0;
  int64_t master = 0, moments = 0;  ///< of element state.begin
};

class ShardLayout {
 public:
  struct Options {
    DType compute = DType::kF32;
    int64_t stage = 0, parts = 1, index = 0;           ///< ZeRO stage; this is shard `index` of `parts`
    int64_t secondary_parts = 0, secondary_index = 0;  ///< in the smaller group; 0: there is none
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

  bool weights_sharded() const { return options_.stage >= 3 && options_.parts > 1; }
  bool state_sharded() const { return options_.stage >= 1 && options_.parts > 1; }

 private:
  Options options_;
  std::vector<GroupLayout> groups_;
  std::vector<std::vector<int32_t>> by_block_;
  std::vector<plan::BlockState> states_;
};

}  // namespace hawser::parallel
