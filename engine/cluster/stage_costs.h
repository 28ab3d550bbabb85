// Stage costs: the seconds of every instruction of a stage's plan on a cluster, as a table for the simulator.
// Kernels take the time that the device's rates give, and transfers the time of their route through the
// network's levels.
#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "engine/cluster/cluster.h"
#include "engine/parallel/shard_layout.h"
#include "engine/parallel/strategy.h"
#include "engine/plan/simulator.h"

namespace hawser::cluster {

/// A stage of the pipeline, of which all ranks do the same.
struct StageProblem {
  const plan::Plan* plan = nullptr;
  const parallel::ShardLayout* layout = nullptr;  ///< of the stage's first rank
  const parallel::DataParallelStrategy* strategy = nullptr;
};

/// The seconds of what one rank sends: latency + bytes x seconds_per_byte.
struct TransferRate {
  double latency = 0, seconds_per_byte = 0;
  double seconds(int64_t bytes) const { return latency + static_cast<double>(bytes) * seconds_per_byte; }
};

/// Routes of a stage's transfers, each found once.
class NetworkCosts {
 public:
  /// Both must outlive this object.
  NetworkCosts(const Cluster& cluster, const parallel::ShardLayout& layout)
      : cluster_(cluster), layout_(layout) {}

  const parallel::Route& route(const parallel::Sent& sent);
  /// A hop takes the latency of its outermost level, and as long as the level that needs longest. Hops follow
  /// each other.
  TransferRate rate(const parallel::Sent& sent);

 private:
  using Key = std::tuple<parallel::TransferGroup, comm::Operation, int64_t, plan::Lane>;
  const Cluster& cluster_;
  const parallel::ShardLayout& layout_;
  std::map<Key, parallel::Route> routes_;
};

/// Throws kInvalidArgument if the plan copies to the host or the disk and the cluster does not say how fast.
plan::CostTable stage_costs(const Cluster& cluster, const StageProblem& stage);

/// What one rank sends in a step, by group, operation, hop and level; the sums by group are the ledger's.
struct SentRow {
  parallel::TransferGroup group;
  comm::Operation operation;
  parallel::HopKind hop;
  parallel::LevelBytes bytes{};
};
std::vector<SentRow> sent_rows(const Cluster& cluster, const StageProblem& stage);

}  // namespace hawser::cluster
