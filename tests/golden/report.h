// Report: what golden_check found, row by row, and the table it prints.
#pragma once

#include <string>
#include <vector>

namespace hawser::golden {

class Report {
 public:
  /// A measured relative error against its tolerance.
  void compare(const std::string& what, double error, double tolerance);
  /// Something that must hold exactly; `detail` says how it does not.
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
