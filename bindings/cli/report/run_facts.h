// RunFacts: a record of facts about a run other than its steps, for the live line and the report.
// TrainSession fills it in as facts become known.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "bindings/cli/report/sample_answer.h"

namespace hawser::cli {

/// When a process began to train the run.
struct RunStart {
  int64_t step = 0;  ///< steps done before
  std::string time;  ///< UTC, such as 2026-11-28T01:04:05Z
};

struct RunFacts {
  std::string name;                                        ///< folder or config name, for the title
  std::vector<std::pair<std::string, std::string>> table;  ///< label and value, for the report's summary
  std::string config_json;                                 ///< the config as it was set
  int64_t total_steps = 0;
  double parameters = 0;
  double flops_per_token = 0;  ///< forward and backward
  int64_t ranks = 1;
  int64_t failed_saves = 0;     ///< checkpoints that could not be written
  double tokens_per_epoch = 0;  ///< of the training data; 0: unknown, because the program pushes batches
  double tokens_per_row = 0;
  double memory_bytes = 0;  ///< planned peak of each rank, in bytes
  double peak_flops = 0;    ///< measured matrix-product rate in the config's precision; 0: not measured yet
  double order1_loss =
      std::numeric_limits<double>::quiet_NaN();  ///< loss of a bigram model on the validation part
  double best_validation = std::numeric_limits<double>::quiet_NaN();
  int64_t best_step = 0;
  static constexpr const char* kRunning = "running";
  /// Running, finished, interrupted, or failed with a reason
  std::string state = kRunning;
  std::vector<std::pair<int64_t, std::string>> samples;  ///< step and text, newest last
  std::vector<SampleAnswer> answers;                     ///< to /telemetry/samples, newest last

  /// Returns how many passes over the data `rows` rows make; NaN if unknown.
  double epochs(int64_t rows) const {
    return tokens_per_epoch > 0 ? static_cast<double>(rows) * tokens_per_row / tokens_per_epoch
                                : std::numeric_limits<double>::quiet_NaN();
  }
  bool running() const { return state == kRunning; }
  /// Returns the share of the measured peak that `tokens_per_second` reaches; NaN if the peak is unknown.
  double mfu(double tokens_per_second) const {
    return peak_flops > 0 && flops_per_token > 0 ? flops_per_token * tokens_per_second / peak_flops
                                                 : std::numeric_limits<double>::quiet_NaN();
  }
};

}  // namespace hawser::cli
