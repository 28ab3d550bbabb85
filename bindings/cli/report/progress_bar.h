// ProgressBar: one line that rewrites itself on a terminal, and nothing elsewhere.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace hawser::cli {

class ProgressBar {
 public:
  ProgressBar();
  /// Shows the share of the work that is done, and a text behind it.
  void show(double share, const std::string& text);
  /// Moves below the line, if there is one.
  void finish();
  bool on_terminal() const { return terminal_; }
  /// Seconds since the bar was made, never 0.
  double seconds() const;

 private:
  const bool terminal_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  size_t shown_ = 0;  // length of the text on the line, and 1; 0: no line
};

}  // namespace hawser::cli
