// Metrics: the figures of the last step, for hws_engine_metrics and for the host's callback after each step.
//
// Threading: any thread may call json, also while a step runs. The other members belong to the step's thread.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "engine/execute/step_result.h"
#include "engine/execute/step_traffic.h"
#include "engine/ranks/ranks.h"
#include "engine/report/event_log.h"
#include "engine/report/validations.h"
#include "engine/save/background_saver.h"

namespace hawser::train {

class Metrics {
 public:
  Metrics(const Ranks& ranks, const BackgroundSaver& saver, const EventLog& events,
          const Validations& validations)
      : ranks_(ranks),
        saver_(saver),
        events_(events),
        validations_(validations),
        traffic_(ranks.first().groups()) {}

  /// The traffic of the first rank in this process. The code that runs the step counts it.
  StepTraffic& traffic() { return traffic_; }
  /// Stores the result of a finished step and the counts of its routers.
  void take(const StepResult& result);
  /// Passes json() to the callback, if one is set.
  void tell() const {
    if (fn_) fn_(json());
  }
  void set_callback(std::function<void(const std::string&)> fn) { fn_ = std::move(fn); }

  int64_t last_step() const { return last_.step; }
  int64_t last_sent_bytes() const { return sum(last_sent_).bytes; }
  std::string json() const;

 private:
  const Ranks& ranks_;
  const BackgroundSaver& saver_;
  const EventLog& events_;
  const Validations& validations_;
  StepTraffic traffic_;
  std::function<void(const std::string&)> fn_;
  mutable std::mutex mutex_;  // guards last_...
  StepResult last_;
  std::vector<int64_t> last_tallies_;
  StepTraffic::Totals last_sent_{};
};

}  // namespace hawser::train
