// Formats the progress of a run.
#include "bindings/cli/report/live_line.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cmath>
#include <limits>
#include <vector>

#include "bindings/cli/output.h"
#include "bindings/cli/quantity.h"
#include "bindings/cli/report/seconds.h"

namespace hawser::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kMinimumSecondsBetweenShows = 0.1;
constexpr double kWindowDecay = 0.95;  // about the last 20 steps

size_t terminal_width() {
  winsize size = {};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

/// "margin 0.123, accuracy 75%"
std::string preferences_text(const Preferences& p) {
  return format_text("margin %.3f, accuracy %.0f%%", p.margin, 100 * p.accuracy);
}

}  // namespace

LiveLine::LiveLine(const RunFacts* facts, int64_t first_step, int64_t log_every)
    : facts_(facts),
      terminal_(isatty(STDOUT_FILENO) != 0),
      first_step_(first_step),
      log_every_(log_every),
      begin_(Clock::now()),
      validation_loss_(std::numeric_limits<double>::quiet_NaN()) {}

/// The parts of the line in reading order. The least important are dropped first if the line is too narrow.
std::string LiveLine::text(const MetricRow& row, size_t width) const {
  struct Field {
    std::string text;
    int keep;  // larger: dropped later
  };
  std::vector<Field> parts;
  const auto steps = static_cast<long long>(facts_->total_steps);
  parts.push_back({format_text("step %lld/%lld", static_cast<long long>(row.step), steps), 9});
  parts.push_back({"loss " + loss_text(row.loss), 8});
  if (!std::isnan(validation_loss_)) parts.push_back({"val " + loss_text(validation_loss_), 7});
  parts.push_back({format_text("lr %.2e", row.learning_rate), 3});
  parts.push_back({format_text("norm %.2f", row.grad_norm), 4});
  parts.push_back({count_text(rate()) + " tok/s", 6});
  if (!std::isnan(row.most_load))
    parts.push_back({format_text("experts %.2f to %.2f of the mean", row.least_load, row.most_load), 3});
  if (!row.preferences.empty()) parts.push_back({preferences_text(row.preferences), 7});
  const double mfu = facts_->mfu(rate());
  if (std::isfinite(mfu)) parts.push_back({format_text("MFU %.0f%%", 100.0 * mfu), 2});
  if (facts_->ranks > 1)
    parts.push_back({format_text("%lld ranks", static_cast<long long>(facts_->ranks)), 2});
  if (facts_->memory_bytes > 0)
    parts.push_back({bytes_text(facts_->memory_bytes) + (facts_->ranks > 1 ? " each" : ""), 1});
  const double done = static_cast<double>(row.step - first_step_);
  const double left =
      (seconds_since(begin_) - excluded_) / done * static_cast<double>(facts_->total_steps - row.step);
  if (const double epochs = facts_->epochs(row.samples); std::isfinite(epochs))
    parts.push_back({format_text("epoch %.2f", epochs), 3});
  parts.push_back({"elapsed " + duration_text(seconds_since(begin_)), 4});
  parts.push_back({"ETA " + duration_text(left), 5});
  if (facts_->failed_saves > 0)
    parts.push_back({format_text("NOT SAVED %lld", static_cast<long long>(facts_->failed_saves)), 8});
  if (row.skipped > 0) parts.push_back({format_text("skipped %lld", static_cast<long long>(row.skipped)), 5});

  for (int drop = 1;; ++drop) {
    std::string line;
    for (const Field& part : parts) {
      if (part.keep >= drop) line += (line.empty() ? "" : " | ") + part.text;
    }
    if (line.size() < width || drop == 9) return line.substr(0, width - 1);
  }
}

void LiveLine::show(const std::string& line) {
  last_ = line;
  output().print("\r\x1b[K%s", line.c_str());
  output().flush();
}

void LiveLine::step(const MetricRow& row, bool saving, int64_t saved, bool best) {
  if (saved > 0) saved_ = saved;
  window_positions_ = kWindowDecay * window_positions_ + row.tokens_per_second * row.seconds;
  window_seconds_ = kWindowDecay * window_seconds_ + row.seconds;
  const bool validated = !std::isnan(row.validation_loss);
  if (validated) validation_loss_ = row.validation_loss;
  if (row.outcome != HWS_STEP_ACCEPTED) {
    const char* const then = row.outcome == HWS_STEP_REWOUND ? "the run goes on from its newest checkpoint"
                                                             : "no weight was changed";
    print(format_text("step %lld %s: loss %s, gradient norm %g; %s", static_cast<long long>(row.step),
                      outcome_name(row.outcome), loss_text(row.loss).c_str(), row.grad_norm, then));
  }
  const bool last = row.step >= facts_->total_steps;
  if (!terminal_) {
    const bool due = row.step % log_every_ == 0 || row.step == first_step_ + 1;
    if (due || last || validated || saving) {
      std::string line = text(row, 400) + (best ? " | best" : "");
      for (const auto& [name, loss] : row.validation_losses) line += " | " + name + " " + loss_text(loss);
      if (!row.validation_preferences.empty())
        line += " | val " + preferences_text(row.validation_preferences);
      if (saved_ > 0) line += format_text(" | saved step-%lld", static_cast<long long>(saved_));
      print(line + (saving ? " | saving" : ""));
      saved_ = 0;
    }
    return;
  }
  if (!last && !validated && seconds_since(shown_at_) < kMinimumSecondsBetweenShows) return;
  shown_at_ = Clock::now();
  if (validated) print(validation_text(row, best));
  show(text(row, terminal_width()));
}

/// Returns a permanent line, because such lines are the history of a run's validations.
std::string LiveLine::validation_text(const MetricRow& row, bool best) const {
  std::string line =
      format_text("step %lld: validation loss %s, training %s", static_cast<long long>(row.step),
                  loss_text(row.validation_loss).c_str(), loss_text(row.loss).c_str());
  if (const double epochs = facts_->epochs(row.samples); std::isfinite(epochs))
    line += format_text(", epoch %.2f", epochs);
  for (const auto& [name, loss] : row.validation_losses) line += ", " + name + " " + loss_text(loss);
  if (!row.validation_preferences.empty()) line += ", " + preferences_text(row.validation_preferences);
  return line + ", after " + duration_text(seconds_since(begin_)) + (best ? " (best)" : "");
}

void LiveLine::print(const std::string& text) {
  if (terminal_) {
    output().print("\r\x1b[K%s\n%s", text.c_str(), last_.c_str());
  } else {
    output().line(text);
  }
  output().flush();
}

void LiveLine::finish() {
  if (terminal_ && !last_.empty()) output().print("\n");
  last_.clear();
  output().flush();
}

}  // namespace hawser::cli
