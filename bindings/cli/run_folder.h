// RunFolder: the folder of one training run (--out, --resume).
//   config.json      the fields that were set: `hawser train config.json` repeats the run
//   resolved.json    every field, with defaults and rules applied
//   overrides.json   the fields that --set, --data and --threads gave
//   starts.jsonl     when the run was started and resumed, and the number of steps done before
//   metrics.jsonl    one row per step, in order, none twice
//   samples.jsonl    with /telemetry/samples: one row per validation and prompt, none twice
//   report.html      charts and a summary of the run
//   ranks.jsonl      in an elastic run: the number of ranks from each step on
//   choices.jsonl    on GPUs: the algorithms of matrix products from each step on
//   trace.json       with --profile: the time of each kernel call of the last step
//   checkpoints/     step-N and best
// The folder is held open by a descriptor: it may be moved while the run continues, and the run's files
// follow it.
#pragma once

#include <string>
#include <vector>

#include "bindings/cli/client.h"
#include "bindings/cli/line_file.h"
#include "bindings/cli/report/metric_row.h"
#include "bindings/cli/report/run_facts.h"
#include "bindings/cli/report/sample_answer.h"

namespace hawser::cli {

/// What earlier processes of a run have written.
struct History {
  std::vector<MetricRow> rows;
  std::vector<SampleAnswer> answers;
};

class RunFolder {
 public:
  /// Refuses a path that is not an empty folder or cannot be created. Writes nothing.
  static void check_unused(const std::string& path);
  /// Creates the folder and its config files. Locks it against other processes for the lifetime of this
  /// object.
  static RunFolder create(const std::string& path, const std::string& config_json,
                          const std::string& resolved_json, const std::vector<std::string>& overrides);
  /// True if the folder holds a run.
  static bool is_run(const std::string& path);
  /// Removes the files of a process that was killed while it created the folder. Leaves a folder that
  /// contains other files as it is.
  static void clear_unfinished(const std::string& path);
  /// Opens the folder of an earlier run and locks it.
  static RunFolder open(const std::string& path);
  /// Opens the folder only to read its config; another process may be using it.
  static RunFolder look_into(const std::string& path);

  RunFolder(RunFolder&& other) noexcept;
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;
  ~RunFolder();

  /// The current path of the folder.
  std::string path() const;
  std::string config_path() const { return path() + "/config.json"; }
  std::string report_path() const { return path() + "/report.html"; }
  std::string trace_path() const { return path() + "/trace.json"; }
  std::string checkpoints_path() const { return path() + "/checkpoints"; }

  /// Pointers of the fields that the original command line set.
  std::vector<std::string> overrides() const;
  /// Rewrites config.json and resolved.json.
  void write_config(const std::string& config_json, const std::string& resolved_json) const;
  /// Returns the complete rows of metrics.jsonl. Another process may be writing it.
  std::vector<MetricRow> rows() const;
  /// Returns the contents of starts.jsonl; nothing for a run of a version that did not write it.
  std::vector<RunStart> starts() const;
  /// Drops the rows and answers after `step` (and incomplete last lines), and returns the remaining ones.
  History keep_until(int64_t step);
  /// Moves damaged checkpoints aside, given their names; returns their new paths.
  std::vector<std::string> set_aside_checkpoints(const std::vector<std::string>& names) const;
  /// Appends the complete row, or throws and leaves the file unchanged.
  void append(const MetricRow& row);
  void append(const SampleAnswer& answer);
  /// Adds the time and the number of steps done to starts.jsonl.
  void note_start(int64_t step) const;
  /// Adds the number of ranks from `step` on to ranks.jsonl.
  void note_ranks(int64_t step, int64_t ranks) const;
  /// Adds the choices of the engine's GPUs from `step` on (JSON from the engine's info) to choices.jsonl.
  void note_choices(int64_t step, const std::string& choices_json) const;

 private:
  explicit RunFolder(const std::string& path);
  void note(const std::string& file_name, const std::string& row) const;
  std::string metrics_path() const { return path() + "/metrics.jsonl"; }
  std::string samples_path() const { return path() + "/samples.jsonl"; }
  void lock();
  std::vector<MetricRow> keep_rows_until(int64_t step);
  std::vector<SampleAnswer> keep_answers_until(int64_t step);

  std::string path_;  // path when it was opened
  int folder_ = -1;
  LineFile metrics_, samples_;
};

}  // namespace hawser::cli
