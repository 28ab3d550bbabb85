// Builds the report of a run.
#include "bindings/cli/report/report.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "bindings/cli/quantity.h"
#include "bindings/cli/report/svg_chart.h"
#include "bindings/cli/utf8.h"

namespace hawser::cli {
namespace {

constexpr size_t kColumns = 450;  // columns of a chart; more points per curve would not be visible

constexpr const char* kStyle = R"css(
:root { color-scheme: light dark;
  --page: #f6f7f9; --card: #ffffff; --ink: #1c2430; --muted: #667085; --line: #e4e7ec; --axis: #98a2b3;
  --train: #2f6fde; --validation: #e07b16; --rate: #0f8f78; --norm: #8a4fd0; --speed: #c2366b; }
@media (prefers-color-scheme: dark) { :root {
  --page: #12161c; --card: #1a2029; --ink: #e6eaf0; --muted: #98a3b3; --line: #2b3440; --axis: #5b6778;
  --train: #6ea3ff; --validation: #ffa94d; --rate: #3fc9ad; --norm: #b98cf2; --speed: #f47aa6; } }
* { box-sizing: border-box; }
body { margin: 0; padding: 28px 20px 48px; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 1180px; margin: 0 auto; }
h1 { font-size: 22px; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 15px; margin: 0 0 6px; }
.state { color: var(--muted); margin: 2px 0 18px; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 12px; margin-bottom: 16px; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 460px), 1fr)); gap: 16px; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 14px 16px; min-width: 0; }
.tile b { display: block; font-size: 20px; font-variant-numeric: tabular-nums; }
.tile span { color: var(--muted); font-size: 13px; }
svg { display: block; width: 100%; height: auto; }
svg text { fill: var(--muted); font-size: 11.5px; font-variant-numeric: tabular-nums; }
svg text.legend { fill: var(--ink); }
svg .grid { stroke: var(--line); } svg .axis { stroke: var(--axis); }
table { border-collapse: collapse; width: 100%; }
td { padding: 4px 0; border-top: 1px solid var(--line); vertical-align: top; }
tr:first-child td { border-top: 0; }
td:first-child { color: var(--muted); padding-right: 24px; white-space: nowrap; }
td:last-child { overflow-wrap: anywhere; }
.wide { margin-top: 16px; }
pre { margin: 6px 0 0; white-space: pre-wrap; overflow-wrap: anywhere; font: 13px/1.45 ui-monospace, Consolas, monospace; }
summary { cursor: pointer; font-weight: 600; }
)css";

/// While the run continues, an open page reloads itself.
constexpr const char* kRefresh = "<meta http-equiv=\"refresh\" content=\"15\">\n";

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else if (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t')
      out += "\xC2\xB7";  // a middle dot
    else
      out += c;
  }
  return out;
}

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
void add_curve(Chart* chart, const std::string& label, const std::string& colour,
               const std::vector<Point>& points) {
  if (points.size() < 100) {
    chart->series.push_back({label, colour, 1.0, 1.8, points.size() < 40, points});
    return;
  }
  chart->series.push_back({"", colour, 0.3, 1.0, false, thinned(points, kColumns)});
  const size_t window = std::max<size_t>(9, points.size() / 40);
  chart->series.push_back({label, colour, 1.0, 1.8, false, smoothed(points, window, kColumns)});
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
  add_curve(&chart, "training", "var(--train)", preference_curve(rows, &MetricRow::preferences, field));
  const auto validation = preference_curve(rows, &MetricRow::validation_preferences, field);
  if (!validation.empty())
    chart.series.push_back(
        {"validation", "var(--validation)", 1.0, 2.0, true, thinned(validation, kColumns)});
  return chart;
}

std::string card(const std::string& heading, const Chart& chart) {
  return "<section class=\"card\"><h2>" + heading + "</h2>\n" + svg(chart) + "</section>\n";
}

std::string charts(const RunFacts& facts, const std::vector<MetricRow>& rows) {
  const bool of_pairs = !rows.empty() && !rows.back().preferences.empty();
  Chart loss{"Loss", "step", of_pairs ? "mean over pairs" : "nats per token", false, {}};
  add_curve(&loss, "training", "var(--train)", curve(rows, &MetricRow::loss));
  const std::vector<Point> validation = validation_curve(rows);
  if (!validation.empty()) {
    loss.series.push_back({"validation", "var(--validation)", 1.0, 2.0, true, thinned(validation, kColumns)});
  }
  for (const auto& [name, points] : validation_curves(rows))
    loss.series.push_back({escaped(name), "var(--validation)", 0.5, 1.2, true, thinned(points, kColumns)});
  if (std::isfinite(facts.order1_loss) && !rows.empty()) {
    const auto first = static_cast<double>(rows.front().step), last = static_cast<double>(rows.back().step);
    loss.series.push_back({"order-1 model",
                           "var(--axis)",
                           0.9,
                           1.2,
                           false,
                           {{first, facts.order1_loss}, {last, facts.order1_loss}}});
  }
  Chart rate{"Learning rate", "step", "learning rate", true, {}};
  rate.series.push_back(
      {"", "var(--rate)", 1.0, 1.8, false, thinned(curve(rows, &MetricRow::learning_rate), kColumns)});
  Chart norm{"Gradient norm", "step", "before clipping", true, {}};
  add_curve(&norm, "", "var(--norm)", curve(rows, &MetricRow::grad_norm));
  Chart speed{"Throughput", "step", "tokens per second", true, {}};
  add_curve(&speed, "", "var(--speed)", curve(rows, &MetricRow::tokens_per_second));
  std::string preferences;
  if (of_pairs)
    preferences = card("Reward margin", preference_chart(rows, "Reward margin", "chosen less rejected",
                                                         &Preferences::margin)) +
                  card("Reward accuracy",
                       preference_chart(rows, "Reward accuracy", "share of pairs", &Preferences::accuracy));
  return "<div class=\"charts\">\n" + card("Loss", loss) + preferences + card("Learning rate", rate) +
         card("Gradient norm", norm) + card("Throughput", speed) + "</div>\n";
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
  std::string out = "<section class=\"card wide\"><h2>Run</h2><table>\n";
  for (const auto& [label, value] : table) {
    out += "<tr><td>" + escaped(label) + "</td><td>" + escaped(value) + "</td></tr>\n";
  }
  return out + "</table></section>\n";
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
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>" + escaped(facts.name) +
      " - Hawser</title>\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n" +
      (facts.running() ? kRefresh : "") + "<style>" + kStyle + "</style>\n</head>\n<body><main>\n";
  out += "<h1>" + escaped(facts.name) + "</h1>\n<p class=\"state\">" + escaped(facts.state) +
         format_text(" &middot; step %lld of %lld</p>\n", step, static_cast<long long>(facts.total_steps));
  out += tiles(facts, rows) + charts(facts, rows) + summary(facts, rows) + answers(facts) + samples(facts);
  out += "<section class=\"card wide\"><details><summary>Config</summary><pre>" + escaped(facts.config_json) +
         "</pre></details></section>\n";
  return out + "</main></body>\n</html>\n";
}

}  // namespace hawser::cli
