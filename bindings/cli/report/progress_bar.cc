#include "bindings/cli/report/progress_bar.h"

#include <unistd.h>

#include "bindings/cli/output.h"
#include "bindings/cli/report/seconds.h"

namespace hawser::cli {

constexpr int kBarWidth = 24;

ProgressBar::ProgressBar() : terminal_(isatty(STDOUT_FILENO) != 0) {}

void ProgressBar::show(double share, const std::string& text) {
  if (!terminal_) return;
  std::string bar(static_cast<size_t>(share * kBarWidth), '#');
  bar.resize(kBarWidth, '.');
  // Blanks cover the end of a longer text.
  const size_t covered = shown_ > text.size() ? shown_ - text.size() : 0;
  output().print("\r[%s] %3.0f%%  %s%*s", bar.c_str(), 100 * share, text.c_str(), static_cast<int>(covered),
                 "");
  output().flush();
  shown_ = text.size() + 1;
}

void ProgressBar::finish() {
  if (shown_ > 0) output().print("\n");
  shown_ = 0;
}

double ProgressBar::seconds() const { return seconds_since(began_) + 1e-3; }

}  // namespace hawser::cli
