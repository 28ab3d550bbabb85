// Builds the report of a run.
#include "bindings/cli/report/report.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "bindings/cli/quantity.h"
#include "bindings/cli/report/page.h"
#include "bindings/cli/report/svg_chart.h"
#include "bindings/cli/utf8.h"

namespace hawser::cli {
namespace {

constexpr size_t kColumns = 450;  // columns of a chart; more points per curve would not be visible

/// While the run continues, an open page reloads itself.
constexpr const char* kRefresh = "<meta http-equiv=\"refresh\" content=\"15\">\n";

std::vector<Point> curve(const std::vector<MetricRow>& rows, double MetricRow::*field) {
  std::vector<Point> points;
  points.reserve(rows.size());
  for (const MetricRow& row : rows) points.push_back({static_cast<double>(row.step), row.*field});
  return points;
}

std::vector<Point> validation_curve(const std::vector<MetricRow>& rows) {
  std::vector<Point> points;
  for (const MetricRow& row : rows) {
    if (std::isfinite(row.validation_loss))
      points.push_back({static_cast<double>(row.step), row.validation_loss});
  }
  return points;
}

/// Returns the curve of each validation set.
std::map<std::string, std::vector<Point>> validation_curves(const std::vector<MetricRow>& rows) {
  std::map<std::string, std::vector<Point>> curves;
  for (const MetricRow& row : rows)
    for (const auto& [name, loss] : row.validation_losses)
      if (std::isfinite(loss)) curves[name].push_back({static_cast<double>(row.step), loss});
  return curves;
}

/// Adds a faint line through every step under a bold smoothed one; only the line if there are few steps.
/// `label` is that of the legend, `name` that of the values under the pointer.
void add_curve(Chart* chart, const std::string& label, const std::string& name, const std::string& colour,
               const std::vector<Point>& points) {
  if (points.size() < 100) {
    chart->series.push_back({label, colour, 1.0, 1.8, points.size() < 40, points, name});
    return;
  }
  chart->series.push_back({"", colour, 0.3, 1.0, false, thinned(points, kColumns), name});
  const size_t window = std::max<size_t>(9, points.size() / 40);
  chart->series.push_back(
      {label, colour, 1.0, 1.8, false, smoothed(points, window, kColumns), name + ", smoothed"});
}

/// Returns a curve of the rewards of pairs that are not empty.
std::vector<Point> preference_curve(const std::vector<MetricRow>& rows, Preferences MetricRow::*of,
                                    double Preferences::*field) {
  std::vector<Point> points;
  for (const MetricRow& row : rows)
    if (!(row.*of).empty()) points.push_back({static_cast<double>(row.step), row.*of.*field});
  return points;
}

/// A chart of training and validation.
Chart preference_chart(const std::vector<MetricRow>& rows, const std::string& title,
                       const std::string& y_label, double Preferences::*field) {
  Chart chart{title, "step", y_label, false, {}};
  add_curve(&chart, "training", "training", "var(--train)",
            preference_curve(rows, &MetricRow::preferences, field));
  const auto validation = preference_curve(rows, &MetricRow::validation_preferences, field);
  if (!validation.empty())
    chart.series.push_back(
        {"validation", "var(--validation)", 1.0, 2.0, true, thinned(validation, kColumns), "validation"});
  return chart;
}

std::string charts(const RunFacts& facts, const std::vector<MetricRow>& rows) {
  const bool of_pairs = !rows.empty() && !rows.back().preferences.empty();
  Chart loss{"Loss", "step", of_pairs ? "mean over pairs" : "nats per token", false, {}};
  add_curve(&loss, "training", "training", "var(--train)", curve(rows, &MetricRow::loss));
  const std::vector<Point> validation = validation_curve(rows);
  if (!validation.empty()) {
    loss.series.push_back(
        {"validation", "var(--validation)", 1.0, 2.0, true, thinned(validation, kColumns), "validation"});
  }
  for (const auto& [name, points] : validation_curves(rows))
    loss.series.push_back({name, "var(--validation)", 0.5, 1.2, true, thinned(points, kColumns), name});
  if (std::isfinite(facts.order1_loss) && !rows.empty()) {
    const auto first = static_cast<double>(rows.front().step), last = static_cast<double>(rows.back().step);
    loss.series.push_back({"order-1 model",
                           "var(--axis)",
                           0.9,
                           1.2,
                           false,
                           {{first, facts.order1_loss}, {last, facts.order1_loss}}});
  }
  Chart rate{"Learning rate", "step", "", true, {}};
  rate.series.push_back({"", "var(--rate)", 1.0, 1.8, false,
                         thinned(curve(rows, &MetricRow::learning_rate), kColumns), "learning rate"});
  Chart norm{"Gradient norm", "step", "before clipping", true, {}};
  add_curve(&norm, "", "gradient norm", "var(--norm)", curve(rows, &MetricRow::grad_norm));
  Chart speed{"Throughput", "step", "tokens per second", true, {}};
  add_curve(&speed, "", "tokens per second", "var(--speed)", curve(rows, &MetricRow::tokens_per_second));
  std::string preferences;
  if (of_pairs)
    preferences =
        chart_card("Reward margin",
                   preference_chart(rows, "Reward margin", "chosen less rejected", &Preferences::margin)) +
        chart_card("Reward accuracy",
                   preference_chart(rows, "Reward accuracy", "share of pairs", &Preferences::accuracy));
  return "<div class=\"charts\">\n" + chart_card("Loss", loss) + preferences +
         chart_card("Learning rate", rate) + chart_card("Gradient norm", norm) +
         chart_card("Throughput", speed) + "</div>\n";
}

std::string tile(const std::string& label, const std::string& value) {
  return "<div class=\"card tile\"><b>" + escaped(value) + "</b><span>" + escaped(label) + "</span></div>\n";
}

std::string tiles(const RunFacts& facts, const std::vector<MetricRow>& rows) {
  const double speed = median_tokens_per_second(rows);
  std::string out = "<div class=\"tiles\">\n";
  if (std::isfinite(facts.best_validation)) {
    out += tile(format_text("best validation loss, step %lld", static_cast<long long>(facts.best_step)),
                loss_text(facts.best_validation));
  }
  if (!rows.empty()) out += tile("training loss, last step", loss_text(rows.back().loss));
  out += tile("parameters", count_text(facts.parameters));
  out += tile("tokens per second, median", count_text(speed));
  if (std::isfinite(facts.mfu(speed))) {
    out += tile("of the measured matmul peak (MFU)", format_text("%.0f %%", 100.0 * facts.mfu(speed)));
  }
  out += tile(facts.ranks > 1 ? "planned memory of each rank" : "planned memory",
              bytes_text(facts.memory_bytes));
  return out + "</div>\n";
}

std::string summary(const RunFacts& facts, const std::vector<MetricRow>& rows) {
  auto table = facts.table;
  if (!rows.empty()) {
    double seconds = 0, tokens = 0;
    for (const MetricRow& row : rows) {
      if (std::isfinite(row.seconds)) seconds += row.seconds;
      tokens += static_cast<double>(row.tokens);
    }
    table.emplace_back("time in steps", duration_text(seconds));
    table.emplace_back("tokens trained on", count_text(tokens));
    table.emplace_back("skipped steps", format_text("%lld", static_cast<long long>(rows.back().skipped)));
  }
  if (facts.peak_flops > 0)
    table.emplace_back("measured matmul peak", format_text("%.0f GFLOP/s", facts.peak_flops / 1e9));
  if (std::isfinite(facts.order1_loss)) {
    table.emplace_back("order-1 model on the validation part",
                       loss_text(facts.order1_loss) + " nats per token");
  }
  return "<section class=\"card wide\"><h2>Run</h2><table class=\"facts\">\n" + table_rows(table) +
         "</table></section>\n";
}

std::string samples(const RunFacts& facts) {
  std::string out;
  const size_t first = facts.samples.size() > 3 ? facts.samples.size() - 3 : 0;
  for (size_t i = facts.samples.size(); i-- > first;) {
    out += format_text("<section class=\"card wide\"><h2>Sample after step %lld</h2><pre>",
                       static_cast<long long>(facts.samples[i].first)) +
           escaped(with_marks(facts.samples[i].second, "\xEF\xBF\xBD")) + "</pre></section>\n";
  }
  return out;
}

std::string answer_html(const SampleAnswer& a) {
  const std::string text =
      a.problem.empty() ? a.answer + (a.ended ? "" : "\xE2\x80\xA6") : "no answer: " + a.problem;
  return format_text("<p class=\"state\">after step %lld</p><pre>", static_cast<long long>(a.step)) +
         escaped(with_marks(text, "\xEF\xBF\xBD")) + "</pre>\n";
}

/// A card for each prompt: the newest answer, and below it the earlier ones, newest first.
std::string answers(const RunFacts& facts) {
  constexpr size_t kMostShown = 50;
  std::map<std::string, std::vector<const SampleAnswer*>> by_prompt;
  std::vector<std::string> prompts;  // of the newest answers, in their order
  for (const SampleAnswer& a : facts.answers) {
    by_prompt[a.prompt_json].push_back(&a);
    if (a.step == facts.answers.back().step) prompts.push_back(a.prompt_json);
  }
  std::string out;
  for (const std::string& prompt : prompts) {
    const std::vector<const SampleAnswer*>& list = by_prompt[prompt];
    out += "<section class=\"card wide\"><h2>Sample</h2><pre>" + escaped(prompt_text(*list.back())) +
           "</pre>\n" + answer_html(*list.back());
    if (list.size() > 1) out += "<details><summary>Earlier answers</summary>\n";
    for (size_t i = 1; i < std::min(list.size(), kMostShown); ++i)
      out += answer_html(*list[list.size() - 1 - i]);
    out += list.size() > 1 ? "</details></section>\n" : "</section>\n";
  }
  return out;
}

}  // namespace

double median_tokens_per_second(const std::vector<MetricRow>& rows) {
  std::vector<double> values;
  for (size_t i = rows.size() > 1 ? 1 : 0; i < rows.size(); ++i) {
    if (rows[i].outcome == HWS_STEP_ACCEPTED && std::isfinite(rows[i].tokens_per_second)) {
      values.push_back(rows[i].tokens_per_second);
    }
  }
  if (values.empty()) return std::nan("");
  std::nth_element(values.begin(), values.begin() + static_cast<int64_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

std::string report_html(const RunFacts& facts, const std::vector<MetricRow>& rows) {
  const auto step = static_cast<long long>(rows.empty() ? 0 : rows.back().step);
  std::string out =
      "<h1>" + escaped(facts.name) + "</h1>\n<p class=\"state\">" + escaped(facts.state) +
      format_text(" &middot; step %lld of %lld</p>\n", step, static_cast<long long>(facts.total_steps));
  out += tiles(facts, rows) + charts(facts, rows) + summary(facts, rows) + answers(facts) + samples(facts);
  out += "<section class=\"card wide\"><details><summary>Config</summary><pre>" + escaped(facts.config_json) +
         "</pre></details></section>\n";
  return html_page(facts.name, facts.running() ? kRefresh : "", out);
}

}  // namespace hawser::cli
