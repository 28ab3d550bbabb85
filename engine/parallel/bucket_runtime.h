// BucketRuntime: runs the transfers of data parallelism, for DDP, every ZeRO stage and HSDP. An instruction
// names slots, and ShardLayout gives the position of each group's elements in them. The runtime combines both
// into a list of pieces once.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "engine/device/host_link.h"
#include "engine/parallel/group_call.h"
#include "engine/parallel/shard_layout.h"
#include "engine/parallel/strategy.h"
#include "engine/parallel/transfer_group.h"
#include "engine/plan/plan.h"

namespace hawser::parallel {

/// The process groups of one rank. Null for a group of one rank.
struct DataParallelGroups {
  std::unique_ptr<comm::ProcessGroup> dp;                ///< all ranks of the world, for host all-reduces
  std::unique_ptr<comm::ProcessGroup> shard;             ///< ranks that share a replica; stage 0: same as dp
  std::unique_ptr<comm::ProcessGroup> replica;           ///< ranks that hold the same shard
  std::unique_ptr<comm::ProcessGroup> edp, edp_replica;  ///< shard and replica for divided experts
  std::unique_ptr<comm::ProcessGroup> secondary;         ///< the secondary shard group of /zero/reshard_group
  std::unique_ptr<comm::ProcessGroup> matrices;  ///< ranks that hold parts or copies of the same matrices
  std::unique_ptr<comm::ProcessGroup> expert_matrices;  ///< the same for divided experts
  std::unique_ptr<comm::ProcessGroup> tp_sums;  ///< ranks that have parts of the same gradients: REDUCE_TP
  std::unique_ptr<comm::ProcessGroup> kv_sums;  ///< ranks with the same key/value heads: REDUCE_KV
  /// Groups of a pipeline, by lane: this rank and a neighbour; one of the two sends.
  std::array<std::unique_ptr<comm::ProcessGroup>, plan::kLanes> stages;
  // These groups have a lane of their own, between devices if all transfers are:
  std::unique_ptr<comm::ProcessGroup> tp;        ///< ranks that compute each block together
  std::unique_ptr<comm::ProcessGroup> cp;        ///< ranks that divide the tokens of the same rows
  std::unique_ptr<comm::ProcessGroup> cp_hosts;  ///< the ranks of cp, for host memory
  std::unique_ptr<comm::ProcessGroup> ep;        ///< ranks that divide experts

  /// Returns the process group of a transfer. For kWorld, it is the group of host all-reduces.
  comm::ProcessGroup* of(TransferGroup group, plan::Lane lane) const;
  /// That of the exchanges inside a block along an axis.
  comm::ProcessGroup* of_block(mesh::Axis axis) const {
    return (axis == mesh::Axis::kTp ? tp : axis == mesh::Axis::kCp ? cp : ep).get();
  }
};

/// Bytes by lane.
using LaneBytes = std::array<int64_t, plan::kLanes>;

class BucketRuntime {
 public:
  /// `layout`, `strategy`, `groups`, `link` and the arena must outlive the runtime. `staging` is host memory
  /// of transfer_staging_bytes for every plan bound here, or null if the groups can access the arena.
  /// `borrowed_shards`: the shards of borrowed groups, by group; empty if no group is borrowed.
  BucketRuntime(const ShardLayout& layout, const DataParallelStrategy& strategy,
                const DataParallelGroups& groups, char* arena, device::HostLink* link, char* staging,
                std::vector<const char*> borrowed_shards = {});

  /// Prepares the transfers of a plan, which must keep its address afterwards.
  void bind(const plan::Plan& plan);
  /// Starts the transfer of instruction `index` of a bound plan. A staged transfer is complete on return.
  /// Allocates nothing.
  comm::Work start(const plan::Plan& plan, size_t index) const;
  /// Executes RESHARD: copies this rank's shard for the secondary shard group.
  void keep_secondary(const plan::Plan& plan, const plan::Instruction& instruction) const;
  /// Orders later work of the compute stream after the transfer, which belongs to `lane`.
  void follow(plan::Lane lane, comm::Work work) const;
  /// Waits for the transfer. Throws its error.
  void wait(plan::Lane lane, comm::Work work) const;

  friend LaneBytes largest_messages(const plan::Plan& plan, const ShardLayout& layout,
                                    const DataParallelStrategy& strategy);

 private:
  friend int64_t transfer_staging_bytes(const plan::Plan& plan, const ShardLayout& layout,
                                        const DataParallelStrategy& strategy);
  friend int64_t transfer_device_bytes(const plan::Plan& plan, const ShardLayout& layout,
                                       const DataParallelStrategy& strategy);
  GroupCall prepare_model_sum(const plan::Plan& plan, const plan::Instruction& instruction) const;
  void prepare_reductions(const plan::Plan& plan, const plan::Instruction& instruction, GroupCall* out) const;
  GroupCall prepare(const plan::Plan& plan, const plan::Instruction& instruction) const;
  GroupCall prepare_matrices(const plan::Plan& plan, const plan::Instruction& instruction) const;
  GroupCall prepare_message(const plan::Plan& plan, const plan::Instruction& instruction) const;
  void prepare_unshard(const plan::Plan& plan, const plan::Instruction& instruction, GroupCall* out) const;
  template <class Use>
  static void for_each_transfer(const plan::Plan& plan, const ShardLayout& layout,
                                const DataParallelStrategy& strategy, Use use);
  GroupCall staged(GroupCall transfer) const;
  comm::Work start(const GroupCall& transfer) const;
  char* at(const plan::Plan& plan, plan::SlotId slot) const { return arena_ + plan.slot(slot).offset; }
  /// Calls fn(group layout) for each trainable group of the slot's block: divided experts if `experts`, else
  /// all other groups.
  template <typename Fn>
  void each_trainable(const plan::Plan& plan, plan::SlotId slot, bool experts, Fn fn) const {
    for (const int32_t g : layout_.groups_of(plan.slot(slot).block))
      if (layout_.group(g).trainable && layout_.group(g).experts == experts) fn(layout_.group(g));
  }
  const char* shard_of(const plan::Plan& plan, plan::SlotId slot, int32_t group) const;
  char* shard_in(const plan::Plan& plan, plan::SlotId slot, const GroupLayout& group) const;
  DType gradient_type(const plan::Plan& plan, plan::SlotId slot) const;

  const ShardLayout& layout_;
  const DataParallelStrategy& strategy_;
  const DataParallelGroups& groups_;
  char* arena_;
  device::HostLink* link_;
  char* staging_;
  std::vector<const char*> borrowed_shards_;
  std::unordered_map<const plan::Plan*, std::vector<GroupCall>> bound_;
};

/// Returns the largest message of each lane between stages; 0: none.
LaneBytes largest_messages(const plan::Plan& plan, const ShardLayout& layout,
                           const DataParallelStrategy& strategy);

/// Returns the device memory for the sums of a plan's transfers, if groups access device memory.
int64_t transfer_device_bytes(const plan::Plan& plan, const ShardLayout& layout,
                              const DataParallelStrategy& strategy);

/// Returns the host memory that a plan's transfers need, one at a time, if the host cannot access the arena.
int64_t transfer_staging_bytes(const plan::Plan& plan, const ShardLayout& layout,
                               const DataParallelStrategy& strategy);

}  // namespace hawser::parallel
