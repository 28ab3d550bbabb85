// Validations: stores the losses of the last validation by set, and whether it has ended the run, for
// hws_engine_metrics.
//
// Threading: any thread may call json or ended_early. The other members belong to the thread that evaluates.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/json_fwd.h"
#include "engine/optim/objective.h"

namespace hawser::train {

/// The loss of one validation set.
struct SetLoss {
  std::string name;
  double loss = 0;     ///< NaN: none of its rows were among those evaluated
  int64_t tokens = 0;  ///< unmasked targets
};

class Validations {
 public:
  void record(std::vector<SetLoss> sets, std::optional<optim::PairRewards> rewards) {
    const std::lock_guard lock(mutex_);
    sets_ = std::move(sets);
    rewards_ = rewards;
  }
  void end_early(bool ends) {
    const std::lock_guard lock(mutex_);
    ended_early_ = ends;
  }

  bool ended_early() const {
    const std::lock_guard lock(mutex_);
    return ended_early_;
  }
  std::optional<optim::PairRewards> rewards() const {
    const std::lock_guard lock(mutex_);
    return rewards_;
  }
  /// Returns {name: loss}; {} if there are no sets. NaN becomes null, because JSON has no NaN.
  OrderedJson json() const;

 private:
  mutable std::mutex mutex_;
  std::vector<SetLoss> sets_;
  std::optional<optim::PairRewards> rewards_;
  bool ended_early_ = false;
};

}  // namespace hawser::train
