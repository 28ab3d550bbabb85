// Builds the comparison of runs.
#include "bindings/cli/report/compare.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "bindings/cli/quantity.h"
#include "bindings/cli/report/page.h"
#include "bindings/cli/report/report.h"

namespace hawser::cli {
namespace {

using nlohmann::ordered_json;

constexpr size_t kMostPoints = 450;  // of a curve; more would not be visible
constexpr const char* kColours[] = {"--train", "--validation", "--rate", "--norm",
                                    "--speed", "--olive",      "--cyan", "--brown"};

/// The axis is chosen by radio buttons and this style, so that it works without scripts.
constexpr const char* kCompareStyle = R"css(<style>
.axis { margin: 16px 0 12px; } .axis input { position: absolute; opacity: 0; }
.axis label { padding: 4px 12px; border: 1px solid var(--line); background: var(--card); border-radius: 16px; cursor: pointer; }
.axis input:checked + label { background: var(--ink); color: var(--page); }
.axis input:focus-visible + label { outline: 2px solid var(--train); }
.axis .charts { display: none; margin-top: 14px; }
#by-steps:checked ~ .by-steps, #by-tokens:checked ~ .by-tokens, #by-time:checked ~ .by-time { display: grid; }
.scroll { overflow-x: auto; }
th { text-align: left; vertical-align: bottom; color: var(--muted); font-weight: 400; font-size: 13px; }
.scroll th, .scroll td { padding: 4px 20px 4px 0; white-space: nowrap; font-variant-numeric: tabular-nums; }
.scroll td { color: var(--ink); }
@media (min-width: 601px) { .losses th { white-space: normal; } }
.losses td:first-child, .losses td:last-child { white-space: normal; overflow-wrap: anywhere; min-width: 110px; }
.differences td + td { white-space: normal; overflow-wrap: anywhere; min-width: 90px; }
.scroll .key { font-size: 15px; }
</style>
)css";

struct LowestLoss {
  double loss = std::numeric_limits<double>::quiet_NaN();
  int64_t step = 0;
};

LowestLoss lowest(const ComparedRun& run, double MetricRow::*field) {
  LowestLoss result;
  for (const MetricRow& row : run.rows)
    if (std::isfinite(row.*field) && !(row.*field >= result.loss)) result = {row.*field, row.step};
  return result;
}

double seconds_of(const ComparedRun& run) {
  double sum = 0;
  for (const MetricRow& row : run.rows) sum += std::isfinite(row.seconds) ? row.seconds : 0;
  return sum;
}

/// The x axis of a chart: what a row adds to it.
struct XAxis {
  std::string id, label;
  double (*length)(const MetricRow& row, const MetricRow* before);
  double unit;
};

/// Time has a unit in which the longest run is a readable number.
std::vector<XAxis> x_axes(const std::vector<ComparedRun>& runs) {
  double longest = 0;
  for (const ComparedRun& run : runs) longest = std::max(longest, seconds_of(run));
  const double unit = longest < 300 ? 1 : longest < 5 * 3600 ? 60 : 3600;
  const std::string time = unit == 1 ? "seconds" : unit == 60 ? "minutes" : "hours";
  return {
      {"steps", "step",
       [](const MetricRow& row, const MetricRow* before) {
         return static_cast<double>(row.step - (before != nullptr ? before->step : 0));
       },
       1},
      {"tokens", "tokens",
       [](const MetricRow& row, const MetricRow*) { return static_cast<double>(row.tokens); }, 1},
      {"time", time,
       [](const MetricRow& row, const MetricRow*) { return std::isfinite(row.seconds) ? row.seconds : 0; },
       unit}};
}

std::vector<Point> points_of(const ComparedRun& run, double MetricRow::*field, const XAxis& axis) {
  std::vector<Point> points;
  double x = 0;
  const MetricRow* before = nullptr;
  for (const MetricRow& row : run.rows) {
    x += axis.length(row, before) / axis.unit;
    before = &row;
    if (std::isfinite(row.*field)) points.push_back({x, row.*field});
  }
  return points;
}

std::string colour_of(size_t run) { return std::string("var(") + kColours[run % std::size(kColours)] + ")"; }

/// Returns the charts over one axis. Runs beyond the number of colours have fainter curves.
std::string charts_over(const std::vector<ComparedRun>& runs, const XAxis& axis) {
  const std::string unit = objective_of(runs[0]) == "cross_entropy" ? "nats per token" : "mean over pairs";
  Chart training{"Training loss over " + axis.id, axis.label, unit + ", smoothed", false, {}};
  Chart validation{"Validation loss over " + axis.id, axis.label, unit, false, {}};
  for (size_t i = 0; i < runs.size(); ++i) {
    const double opacity = i < std::size(kColours) ? 1.0 : 0.5;
    const std::string &name = runs[i].name, colour = colour_of(i);
    const std::vector<Point> losses = points_of(runs[i], &MetricRow::loss, axis);
    const size_t window = losses.size() < 100 ? 1 : std::max<size_t>(9, losses.size() / 40);
    training.series.push_back(
        {name, colour, opacity, 1.8, false, smoothed(losses, window, kMostPoints), name});
    const std::vector<Point> validations = points_of(runs[i], &MetricRow::validation_loss, axis);
    if (!validations.empty())
      validation.series.push_back(
          {name, colour, opacity, 1.8, true, thinned(validations, kMostPoints), name});
  }
  return "<div class=\"charts by-" + axis.id + "\">\n" + chart_card("Training loss", training) +
         (validation.series.empty() ? "" : chart_card("Validation loss", validation)) + "</div>\n";
}

std::string charts_of(const std::vector<ComparedRun>& runs) {
  std::string buttons, charts;
  for (const XAxis& axis : x_axes(runs)) {
    buttons += "<input type=\"radio\" name=\"axis\" id=\"by-" + axis.id + "\"" +
               (buttons.empty() ? " checked" : "") + "><label for=\"by-" + axis.id + "\">" + axis.id +
               "</label>\n";
    charts += charts_over(runs, axis);
  }
  return "<div class=\"axis\">\n" + buttons + charts + "</div>\n";
}

std::string table_row(const char* cell, const std::vector<std::string>& cells) {
  std::string out = "<tr>";
  for (const std::string& text : cells) out += std::string("<") + cell + ">" + text + "</" + cell + ">";
  return out + "</tr>\n";
}

std::string key_of(const ComparedRun& run, size_t number) {
  return "<span class=\"key\" style=\"--curve:" + colour_of(number) + "\">" + escaped(run.name) + "</span>";
}

/// Returns the loss and its step, or a dash.
std::string loss_cell(const LowestLoss& lowest) {
  if (std::isnan(lowest.loss)) return "-";
  return loss_text(lowest.loss) + format_text(" at step %lld", static_cast<long long>(lowest.step));
}

/// Returns the table of losses. The run with the lowest validation loss comes first.
std::string losses_of(const std::vector<ComparedRun>& runs) {
  struct Line {
    double validation, training;
    std::string html;
  };
  std::vector<Line> lines;
  for (size_t i = 0; i < runs.size(); ++i) {
    const ComparedRun& run = runs[i];
    const LowestLoss validation = lowest(run, &MetricRow::validation_loss),
                     training = lowest(run, &MetricRow::loss);
    double tokens = 0;
    for (const MetricRow& row : run.rows) tokens += static_cast<double>(row.tokens);
    const auto steps = static_cast<long long>(run.rows.back().step);
    lines.push_back(
        {validation.loss, training.loss,
         table_row("td", {key_of(run, i), loss_cell(validation), loss_cell(training),
                          loss_text(run.rows.back().loss), format_text("%lld", steps), count_text(tokens),
                          duration_text(seconds_of(run)), count_text(median_tokens_per_second(run.rows)),
                          escaped(run.started), escaped(run.folder)})});
  }
  const auto order = [](double loss) { return std::isnan(loss) ? INFINITY : loss; };
  std::stable_sort(lines.begin(), lines.end(), [&](const Line& a, const Line& b) {
    return std::pair(order(a.validation), order(a.training)) <
           std::pair(order(b.validation), order(b.training));
  });
  std::string out =
      table_row("th", {"run", "lowest validation loss", "lowest training loss", "last training loss", "steps",
                       "tokens", "time", "tokens per second", "started", "folder"});
  for (const Line& line : lines) out += line.html;
  return out;
}

std::string value_at(const ordered_json& fields, const std::string& pointer) {
  if (!fields.contains(pointer) || fields.at(pointer).is_null()) return "-";
  const ordered_json& value = fields.at(pointer);
  if (value.is_number_float()) return number_text(value.get<double>());
  return value.is_string() ? value.get<std::string>() : value.dump();
}

struct Difference {
  std::string pointer;
  std::vector<std::string> values;  ///< of each run
};

/// Returns the fields that do not have the same value in all runs, in the order of the configs.
std::vector<Difference> differences(const std::vector<ComparedRun>& runs) {
  std::vector<ordered_json> configs;  // pointer to value
  ordered_json all = ordered_json::object();
  for (const ComparedRun& run : runs) {
    configs.push_back(run.resolved.flatten());
    for (const auto& [pointer, value] : configs.back().items()) all[pointer] = nullptr;
  }
  std::vector<Difference> result;
  for (const auto& [pointer, unused] : all.items()) {
    Difference field{pointer, {}};
    for (const ordered_json& config : configs) field.values.push_back(value_at(config, pointer));
    if (std::any_of(field.values.begin(), field.values.end(),
                    [&](const std::string& value) { return value != field.values[0]; }))
      result.push_back(std::move(field));
  }
  return result;
}

std::string differences_table(const std::vector<ComparedRun>& runs, const std::vector<Difference>& fields) {
  if (fields.empty()) return "<p>All fields are equal.</p>\n";
  std::vector<std::string> cells = {"field"};
  for (size_t i = 0; i < runs.size(); ++i) cells.push_back(key_of(runs[i], i));
  std::string out = "<div class=\"scroll\"><table class=\"differences\">\n" + table_row("th", cells);
  for (const Difference& field : fields) {
    cells = {escaped(field.pointer)};
    for (const std::string& value : field.values) cells.push_back(escaped(value));
    out += table_row("td", cells);
  }
  return out + "</table></div>\n";
}

/// Returns a note if the losses are those of different data or tokens; "" otherwise.
std::string note_on(const std::vector<Difference>& fields) {
  std::string names;
  for (const Difference& field : fields)
    for (const char* start : {"/data/sources", "/data/validation", "/data/vocab", "/model/vocab_size"})
      if (field.pointer.starts_with(start)) names += (names.empty() ? "" : ", ") + field.pointer;
  if (names.empty()) return "";
  return "<p>The runs differ in " + escaped(names) +
         ", so their losses may be those of different texts or tokens.</p>\n";
}

}  // namespace

std::string objective_of(const ComparedRun& run) {
  const ordered_json::json_pointer kind("/objective/kind");
  if (!run.resolved.contains(kind) || !run.resolved.at(kind).is_string()) return "cross_entropy";
  return run.resolved.at(kind).get<std::string>();
}

std::string compare_html(const std::vector<ComparedRun>& runs) {
  const std::vector<Difference> fields = differences(runs);
  const std::string title = format_text("Comparison of %zu runs", runs.size());
  return html_page(
      title, kCompareStyle,
      "<h1>" + title + "</h1>\n<p class=\"state\">objective " + escaped(objective_of(runs[0])) +
          "</p>\n<section class=\"card\"><h2>Losses</h2>\n<div class=\"scroll\"><table class=\"losses\">\n" +
          losses_of(runs) + "</table></div>\n" + note_on(fields) + "</section>\n" + charts_of(runs) +
          "<section class=\"card wide\"><h2>Fields of the configs that differ</h2>\n" +
          differences_table(runs, fields) + "</section>\n");
}

}  // namespace hawser::cli
