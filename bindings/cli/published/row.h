// Row: a published training run as a config, and the rate that it is compared by. tests/planner/published
// has the tables.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace hawser::cli::published {

/// How a row of a table is used: to fit constants, to check the prediction, or not at all.
enum class Use { kFit, kHeldBack, kNotEnough };

/// A row with the fields of all rows of its table and of its variant.
class Row {
 public:
  /// Refuses a row that lacks a field, or whose parallel degrees do not multiply to its number of GPUs.
  Row(const nlohmann::ordered_json& table, const nlohmann::ordered_json& row);

  const std::string& name() const { return name_; }
  Use use() const { return use_; }
  int64_t gpus() const { return integer("gpus"); }
  /// Returns the config of the run.
  nlohmann::ordered_json config() const;
  /// Returns what the row or its variant changes in the cluster file of its stack.
  nlohmann::ordered_json stack_changes() const;
  double reported() const;
  const char* unit() const { return is_in_seconds() ? "s" : "TFLOP/s"; }
  /// Converts the seconds of a step to the unit of the report. `parameters`: their number in the model.
  double in_unit(double seconds, double parameters) const;

 private:
  int64_t integer(const char* key) const;
  const nlohmann::ordered_json& field(const char* key) const;
  bool is_in_seconds() const { return field("reported").contains("seconds"); }
  void check_degrees() const;
  /// Returns the layers of each chunk.
  nlohmann::ordered_json layers() const;
  double tokens() const;
  [[noreturn]] void fail(const std::string& message) const;

  std::string table_, name_;
  Use use_ = Use::kNotEnough;
  nlohmann::ordered_json flops_;  // of a token, in the convention of the source
  nlohmann::ordered_json row_;
};

}  // namespace hawser::cli::published
