// TrainSession: a runner that makes one call of hws_engine_train and shows and records its progress: the live
// line, metrics.jsonl, text samples, the measured peak and the report.
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "bindings/cli/client.h"
#include "bindings/cli/report/live_line.h"
#include "bindings/cli/report/metric_row.h"
#include "bindings/cli/report/run_facts.h"
#include "bindings/cli/run_folder.h"
#include "bindings/cli/train/prompt_samples.h"

namespace hawser::cli {

/// Settings from the config.
struct SessionSettings {
  int64_t log_every = 10;
  int64_t sample_every = 0;  ///< 0: no samples
  int32_t threads = 0;       ///< threads of each rank
  int32_t ranks_here = 1, processes = 1;
  bool bf16 = false;
  bool profile = false;            ///< time every kernel
  bool go_on = true;               ///< continue if a file of the run cannot be written (checkpoint.on_error)
  std::string text_file;           ///< the only text file trained on; "" for other data
  double validation_fraction = 0;  ///< share at its end that is held out
};

class TrainSession {
 public:
  /// `folder` may be null to keep nothing. `rows` are the rows of earlier sessions of the run, up to
  /// `first_step`.
  TrainSession(hws_engine* engine, RunFolder* folder, RunFacts facts, SessionSettings settings,
               const PromptSamples& samples, std::vector<MetricRow> rows, int64_t first_step);

  /// Trains to the end, a failure or an interruption. Returns the exit code. On failure writes the report and
  /// throws Failure.
  int run();

 private:
  static int32_t on_step(void* user, const hws_train_record* record);
  void step(const hws_train_record& record);
  void look_at_stdout();
  bool write_or_go_on(const std::function<void()>& write);
  void write_rows();
  int exit_code() const;
  bool peak_is_due(const MetricRow& row) const;
  void measure_peak();
  void show_sample(int64_t step);
  void answer_samples(int64_t step);
  void write_report();
  void tell_of_missing_rows();
  void tell_of_failed_saves();
  void look_at_events();
  int64_t newly_saved();
  void finish(const std::string& state);
  void print_summary();
  void show_profile();

  hws_engine* engine_;
  RunFolder* folder_;
  RunFacts facts_;
  SessionSettings settings_;
  const PromptSamples& samples_;
  std::vector<MetricRow> rows_;
  const int64_t first_step_;
  size_t rows_on_disk_;         // number of rows_ on disk
  size_t answers_on_disk_;      // number of facts_.answers on disk
  bool report_on_disk_ = true;  // whether the last report was written
  int64_t failed_writes_ = 0;   // failed writes of rows and report
  std::string write_error_;     // error of the last failed write
  bool stdout_lost_ = false;
  LiveLine live_;
  int measurements_ = 0;  // measurements of the peak
  int64_t failed_saves_ = 0;
  bool more_ = true;         // true if steps have metrics beyond the record; set at the first step
  std::string save_error_;   // error of the last failed save
  int64_t lost_events_ = 0;  // records for TensorBoard that could not be written
  std::string event_error_;  // error of the last lost record
  struct Saving {
    int64_t step = 0, failures = 0;  // failures: failed saves before this one
  } saving_;                         // the checkpoint being written; step 0: none
  bool text_;                        // the model has a vocabulary for text
  std::chrono::steady_clock::time_point reported_at_;
  std::exception_ptr callback_error_;
};

}  // namespace hawser::cli
