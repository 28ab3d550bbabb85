// Stage costs: estimates the seconds of every instruction of a stage's plan on a cluster, as a table for the
// simulator. The device's rates determine the time of kernels. The route through the network's levels
// determines the time of transfers.
#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "engine/cluster/cluster.h"
#include "engine/parallel/shard_layout.h"
#include "engine/parallel/strategy.h"
#include "engine/plan/simulator.h"

namespace hawser::cluster {

/// A stage of the pipeline. All its ranks do the same.
struct StageProblem {
  const plan::Plan* plan = nullptr;
  const parallel::ShardLayout* layout = nullptr;  ///< of the stage's first rank
  const parallel::DataParallelStrategy* strategy = nullptr;
};

/// The time of a transfer, by the bytes that one rank sends: latency + bytes x seconds_per_byte.
struct TransferRate {
  double latency = 0, seconds_per_byte = 0;
  double seconds(double bytes) const { return latency + bytes * seconds_per_byte; }
};

/// The routes of a stage's transfers, each computed once.
class NetworkCosts {
 public:
  /// Both must outlive this object.
  NetworkCosts(const Cluster& cluster, const parallel::ShardLayout& layout)
      : cluster_(cluster), layout_(layout) {}

  const parallel::Route& route(const parallel::Sent& sent);
  /// A hop takes the largest latency of its levels plus the time of its slowest level. Hops follow each
  /// other.
  TransferRate rate(const parallel::Sent& sent);

 private:
  using Key = std::tuple<parallel::TransferGroup, comm::Operation, int64_t, plan::Lane>;
  const Cluster& cluster_;
  const parallel::ShardLayout& layout_;
  std::map<Key, parallel::Route> routes_;
};

/// Throws kInvalidArgument if the plan needs a rate of the host or the disk that the cluster does not state.
plan::CostTable stage_costs(const Cluster& cluster, const StageProblem& stage);

/// The bytes that one rank sends in a step, by group, operation, hop and level. The sums by group are those
/// of the ledger.
struct SentRow {
  parallel::TransferGroup group;
  comm::Operation operation;
  parallel::HopKind hop;
  parallel::LevelBytes bytes{};
};
std::vector<SentRow> sent_rows(const Cluster& cluster, const StageProblem& stage);

}  // namespace hawser::cluster
