// Report: collects the results of golden_check, row by row, and prints them as a table.
#pragma once

#include <string>
#include <vector>

namespace hawser::golden {

class Report {
 public:
  /// Adds a measured relative error with its tolerance.
  void compare(const std::string& what, double error, double tolerance);
  /// Adds a condition that must hold exactly; `detail` describes the violation.
  void require(const std::string& what, bool holds, const std::string& detail = "");

  /// Prints one line per row (ratio, error, tolerance, what), the worst ratio marked; then one summary line.
  void print(const std::string& title) const;
  bool passed() const;

 private:
  struct Row {
    std::string what;
    bool exact = false, holds = false;
    double error = 0, tolerance = 0;
    std::string detail;
    double ratio() const;
    bool passed() const;
  };
  std::vector<Row> rows_;
};

}  // namespace hawser::golden
