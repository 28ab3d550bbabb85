// StepTraffic: counts exactly what one rank sent in a step: calls and bytes by process group and operation,
// from the groups' own counters (comm/ledger.h defines what counts as sent). All data-parallel ranks send the
// same amounts.
#pragma once

#include <array>

#include "engine/base/json_fwd.h"
#include "engine/comm/ledger.h"
#include "engine/parallel/bucket_runtime.h"

namespace hawser::train {

class StepTraffic {
 public:
  static constexpr size_t kGroups = 14 + plan::kLanes;
  /// Totals of the groups dp, shard, replica, secondary, tp_sums, kv_sums, cp, tp, cp_hosts, ep, edp,
  /// edp_replica, matrices and expert_matrices, then of messages between stages by lane.
  using Totals = std::array<comm::Traffic, kGroups>;

  /// `groups` must outlive this.
  explicit StepTraffic(const parallel::DataParallelGroups& groups);

  // One thread calls these functions, which allocate nothing. The step counts what is sent between begin and
  // end.
  void clear() { step_ = {}; }
  void begin() { before_ = total(); }
  void end();
  const Totals& step() const { return step_; }

  /// Returns totals since the groups were created. Any thread may call it, also during a step.
  Totals total() const;
  /// Returns, for example, {"dp_shard": {"reduce_scatter": {"calls": 3, "bytes": 1024, "wire_bytes": 1552}}}.
  /// Operations that were never called are left out.
  OrderedJson json(const Totals& totals) const;

 private:
  std::array<const comm::ProcessGroup*, kGroups> groups_{};  // null for a group of one
  Totals step_{}, before_{};
};

/// Returns the sum over all groups and operations.
comm::Traffic::Entry sum(const StepTraffic::Totals& totals);

}  // namespace hawser::train
