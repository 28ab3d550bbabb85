// MetricRow: a record of the metrics of one training step, for metrics.jsonl, the live line and the report.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "capi/include/hawser.h"

namespace hawser::cli {

/// Rewards of pairs.
struct Preferences {
  std::string json;  ///< the object of hws_engine_metrics; empty: the model does not train on pairs
  double margin = std::numeric_limits<double>::quiet_NaN();  ///< NaN also if it is not finite
  double accuracy = std::numeric_limits<double>::quiet_NaN();
  bool empty() const { return json.empty(); }
};
Preferences preferences_of(const nlohmann::ordered_json& json);

struct MetricRow {
  int64_t step = 0;
  double loss = 0;                                                ///< nats per token
  double validation_loss = 0;                                     ///< NaN: this step had no validation
  std::vector<std::pair<std::string, double>> validation_losses;  ///< by name, if there are several
  bool ended_early = false;                                       ///< the run ends here (/train/patience)
  double learning_rate = 0;
  double grad_norm = 0;          ///< before clipping
  int64_t tokens = 0;            ///< unmasked targets
  int64_t samples = 0;           ///< rows consumed since the start
  double tokens_per_second = 0;  ///< positions per second, including masked ones
  double seconds = 0;            ///< wall time of the step
  int64_t skipped = 0;           ///< steps skipped so far
  int32_t outcome = 0;           ///< HWS_STEP_*
  double least_load =
      std::numeric_limits<double>::quiet_NaN();  ///< of any layer, divided by the mean; NaN: dense
  double most_load = least_load;
  std::string experts;  ///< load of experts, a JSON array (hws_engine_metrics); empty: a dense model
  Preferences preferences, validation_preferences;
  int64_t communication_bytes = 0;  ///< bytes sent by the first local rank; 0 for one rank
};

MetricRow row_of(const hws_train_record& record);

/// "accepted", "skipped_non_finite", ...
const char* outcome_name(int32_t outcome);

/// One line of JSON without a line break. Numbers are printed so that reading them back gives the same bits;
/// NaN and infinity become null.
std::string to_json(const MetricRow& row);
/// Lists the steps from 1 to `last` that have no row, such as "3, 9 to 33"; "" if every step has a row.
/// `rows` must be in the order of steps.
std::string missing_steps(const std::vector<MetricRow>& rows, int64_t last);
/// Adds a row. A run that goes back to a checkpoint (HWS_STEP_REWOUND) takes its steps again: the new row
/// replaces the rows of its step and of later ones.
void add_row(const MetricRow& row, std::vector<MetricRow>* rows);
/// Returns the last row of each step.
std::vector<MetricRow> last_rows(const std::vector<MetricRow>& rows);
/// Returns the rows of metrics.jsonl up to `last_step`: complete ones, in order, of each step the last one.
/// `lines`, unless it is null, receives their lines.
std::vector<MetricRow> rows_of(const std::string& text, int64_t last_step, std::string* lines = nullptr);
/// Returns false if the line is not a complete row (such as the last one after a crash).
bool from_json(const std::string& line, MetricRow* row);

}  // namespace hawser::cli
