// LiveLine: the progress of a run on stdout. On a terminal it is one line that rewrites itself; otherwise a
// plain line every log_every steps.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "bindings/cli/report/metric_row.h"
#include "bindings/cli/report/run_facts.h"

namespace hawser::cli {

class LiveLine {
 public:
  /// `first_step` is the step before the first one of this process.
  LiveLine(const RunFacts* facts, int64_t first_step, int64_t log_every);

  /// Call after each step. `saving` is true while its checkpoint is being written. `saved` is the step of the
  /// newest checkpoint completed since the last call, or 0. `best` as in hws_train_record.
  void step(const MetricRow& row, bool saving, int64_t saved, bool best);
  /// Prints one or more full lines above the live line.
  void print(const std::string& text);
  /// Leaves the live line as it is and moves below it.
  void finish();
  /// Excludes time that is not training, such as measuring the peak, from the estimate of time left.
  void exclude(double seconds) { excluded_ += seconds; }

 private:
  std::string text(const MetricRow& row, size_t width) const;
  std::string validation_text(const MetricRow& row, bool best) const;
  double rate() const { return window_seconds_ > 0 ? window_positions_ / window_seconds_ : 0.0; }
  void show(const std::string& line);

  const RunFacts* facts_;
  const bool terminal_;
  const int64_t first_step_, log_every_;
  const std::chrono::steady_clock::time_point begin_;
  std::chrono::steady_clock::time_point shown_at_{};
  double excluded_ = 0;
  double window_positions_ = 0, window_seconds_ = 0;  // recent steps, decaying
  double validation_loss_;                            // the last validation's; NaN: none yet
  int64_t saved_ = 0;                                 // step of a checkpoint not yet reported; 0: none
  std::string last_;                                  // the text that the live line shows
};

}  // namespace hawser::cli
