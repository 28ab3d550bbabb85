// StepTraffic: what one rank sent in a step, exactly: calls and bytes by process group and operation, from
// the groups' own counters (comm/ledger.h says what counts as sent). All data-parallel ranks send the same.
#pragma once

#include <array>

#include "engine/base/json.h"
#include "engine/comm/ledger.h"
#include "engine/parallel/bucket_runtime.h"

namespace hawser::train {

class StepTraffic {
 public:
  static constexpr size_t kGroups = 4;
  using Totals = std::array<comm::Traffic, kGroups>;  ///< dp, shard, replica, secondary

  /// `groups` must outlive this.
  explicit StepTraffic(const parallel::DataParallelGroups& groups);

  // One thread, allocating nothing: what is sent between begin and end belongs to the step.
  void clear() { step_ = {}; }
  void begin() { before_ = total(); }
  void end();
  const Totals& step() const { return step_; }

  /// Since the groups were made. Any thread, also beside running calls.
  Totals total() const;
  /// {"dp_shard": {"reduce_scatter": {"calls": 3, "bytes": 1024, "wire_bytes": 1552}}}; what was never called
  /// is left out.
  OrderedJson json(const Totals& totals) const;

 private:
  std::array<const comm::ProcessGroup*, kGroups> groups_;  // null where there is nobody to talk to
  Totals step_{}, before_{};
};

/// Of all groups and operations together.
comm::Traffic::Entry sum(const StepTraffic::Totals& totals);

}  // namespace hawser::train
