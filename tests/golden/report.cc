// Implements report.h.
#include "tests/golden/report.h"

#include <algorithm>
#include <cstdio>
#include <limits>

namespace hawser::golden {

double Report::Row::ratio() const {
  if (exact) return holds ? 0.0 : std::numeric_limits<double>::infinity();
  return error / tolerance;
}

bool Report::Row::passed() const { return ratio() <= 1.0; }

void Report::compare(const std::string& what, double error, double tolerance) {
  rows_.push_back({what, false, false, error, tolerance, ""});
}

void Report::require(const std::string& what, bool holds, const std::string& detail) {
  rows_.push_back({what, true, holds, 0, 0, holds ? "" : detail});
}

bool Report::passed() const {
  return std::all_of(rows_.begin(), rows_.end(), [](const Row& row) { return row.passed(); });
}

void Report::print(const std::string& title) const {
  std::printf("%s\n%10s %10s %10s  %s\n", title.c_str(), "ratio", "error", "tolerance", "tensor");
  const auto worst = std::max_element(rows_.begin(), rows_.end(),
                                      [](const Row& a, const Row& b) { return a.ratio() < b.ratio(); });
  int failed = 0;
  for (auto row = rows_.begin(); row != rows_.end(); ++row) {
    if (row->exact) {
      std::printf("%10s %10s %10s  %s", row->holds ? "equal" : "DIFFERENT", "", "", row->what.c_str());
    } else {
      std::printf("%10.3f %10.2e %10.2e  %s", row->ratio(), row->error, row->tolerance, row->what.c_str());
    }
    if (!row->detail.empty()) std::printf(": %s", row->detail.c_str());
    if (!row->passed()) std::printf("  FAIL");
    if (row == worst && !row->exact) std::printf("  <- worst");
    std::printf("\n");
    failed += row->passed() ? 0 : 1;
  }
  if (rows_.empty()) return;
  std::printf("%s: %zu rows, %d failed, worst ratio %.3f (%s)\n", failed == 0 ? "PASS" : "FAIL", rows_.size(),
              failed, worst->ratio(), worst->what.c_str());
}

}  // namespace hawser::golden
