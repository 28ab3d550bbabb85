// Metrics: the figures of the last step, for whoever asks, and for the host's callback after each step.
//
// Threading: json may be called beside a running step; the others belong to it.
#pragma once

#include <functional>
#include <mutex>
#include <string>

#include "engine/train/ranks/ranks.h"
#include "engine/train/save/background_saver.h"
#include "engine/train/step/step_traffic.h"
#include "engine/train/step_result.h"

namespace hawser::train {

class Metrics {
 public:
  Metrics(const Ranks& ranks, const BackgroundSaver& saver)
      : ranks_(ranks), saver_(saver), traffic_(ranks.first().groups()) {}

  /// Of the first rank here. What a step sends is counted by whoever runs it.
  StepTraffic& traffic() { return traffic_; }
  /// A step has ended so.
  void take(const StepResult& result);
  /// Calls fn, if there is one, with json().
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
  StepTraffic traffic_;
  std::function<void(const std::string&)> fn_;
  mutable std::mutex mutex_;  // guards last_...
  StepResult last_;
  StepTraffic::Totals last_sent_{};
};

}  // namespace hawser::train
