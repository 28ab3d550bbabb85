// Tests the report as a pure function of a run's rows.
#include "bindings/cli/report/report.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "bindings/cli/quantity.h"
#include "bindings/cli/report/page.h"
#include "bindings/cli/report/svg_chart.h"

namespace hawser::cli {
namespace report_test {

std::vector<MetricRow> rows(int count) {
  std::vector<MetricRow> result;
  for (int step = 1; step <= count; ++step) {
    MetricRow row;
    row.step = step;
    row.loss = 1.5 + 3.0 / step;
    row.validation_loss = step % 10 == 0 ? row.loss + 0.1 : std::nan("");
    row.learning_rate = 1e-3;
    row.grad_norm = 1.0;
    row.tokens_per_second = 1000.0;
    row.seconds = 0.1;
    result.push_back(row);
  }
  return result;
}

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

TEST(Report, HasFourChartsAndNothingFromOutside) {
  RunFacts facts;
  facts.name = "a <run> & \"more\"";
  facts.samples = {{10, "bytes \xff\xfe and <tags>"}};
  const std::string html = report_html(facts, rows(500));
  EXPECT_EQ(count(html, "<svg"), 4u);
  EXPECT_EQ(count(html, "</svg>"), 4u);
  for (const char* part : {"://", "src=", "url(http"}) EXPECT_EQ(count(html, part), 0u) << part;
  EXPECT_EQ(count(html, "<run>"), 0u);
  EXPECT_EQ(count(html, "<tags>"), 0u);
  EXPECT_EQ(count(html, "\xff"), 0u);
  EXPECT_EQ(count(html, "nan"), 0u);
  EXPECT_EQ(count(html, "inf"), 0u);
}

TEST(Report, StandsWithoutRowsAndWithOneRowAndWithBrokenNumbers) {
  RunFacts facts;
  EXPECT_EQ(count(report_html(facts, {}), "<svg"), 4u);
  EXPECT_EQ(count(report_html(facts, rows(1)), "<svg"), 4u);
  auto broken = rows(200);
  for (MetricRow& row : broken) row.loss = std::nan("");
  broken[5].grad_norm = INFINITY;
  const std::string html = report_html(facts, broken);
  EXPECT_EQ(count(html, "nan "), 0u);
  EXPECT_EQ(count(html, "inf"), 0u);
}

TEST(Report, PreferencesHaveCurvesOfMarginAndAccuracy) {
  auto pairs = rows(50);
  for (MetricRow& row : pairs) {
    row.preferences = preferences_of({{"margin", 0.25 * static_cast<double>(row.step)}, {"accuracy", 0.5}});
    if (row.step % 10 == 0)
      row.validation_preferences = preferences_of({{"margin", nullptr}, {"accuracy", 0.75}});
  }
  const std::string html = report_html({}, pairs);
  EXPECT_EQ(count(html, "<svg"), 6u);
  for (const char* title : {"<h2>Reward margin<", "<h2>Reward accuracy<"})
    EXPECT_EQ(count(html, title), 1u) << title;
  EXPECT_EQ(count(html, "nan"), 0u);
  const std::string accuracy = html.substr(html.find("<h2>Reward accuracy"));
  EXPECT_GT(count(accuracy.substr(0, accuracy.find("</svg>")), ">validation<"), 0u);

  MetricRow again;
  ASSERT_TRUE(from_json(to_json(pairs[9]), &again));
  EXPECT_EQ(again.preferences.margin, 2.5);
  EXPECT_EQ(again.validation_preferences.accuracy, 0.75);
  EXPECT_TRUE(std::isnan(again.validation_preferences.margin));
  EXPECT_EQ(count(report_html({}, rows(50)), "Reward"), 0u) << "other runs have no such curves";
}

TEST(Report, RefreshesItselfWhileTheRunGoesOn) {
  RunFacts facts;
  EXPECT_EQ(count(report_html(facts, rows(3)), "<meta http-equiv=\"refresh\""), 1u);
  facts.state = "finished";
  EXPECT_EQ(count(report_html(facts, rows(3)), "refresh"), 0u);
}

TEST(RunFacts, CountsEpochs) {
  RunFacts facts;
  EXPECT_TRUE(std::isnan(facts.epochs(10)));
  facts.tokens_per_epoch = 1000, facts.tokens_per_row = 50;
  EXPECT_EQ(facts.epochs(30), 1.5);
}

TEST(MissingSteps, AreThoseWithoutARow) {
  const auto missing = [](const std::vector<int64_t>& steps, int64_t last) {
    std::vector<MetricRow> list;
    for (const int64_t step : steps) list.emplace_back().step = step;
    return missing_steps(list, last);
  };
  EXPECT_EQ(missing({}, 0), "");
  EXPECT_EQ(missing({}, 1), "1");
  EXPECT_EQ(missing({}, 3), "1 to 3");
  EXPECT_EQ(missing({1, 2, 3}, 3), "");
  EXPECT_EQ(missing({2, 3, 5, 9}, 10), "1, 4, 6 to 8, 10");
  EXPECT_EQ(missing({1, 2, 7}, 5), "3 to 5");
}

TEST(Report, StaysSmallForLongRuns) { EXPECT_LT(report_html(RunFacts(), rows(200000)).size(), 300000u); }

TEST(Report, AFewSpikesDoNotFlattenTheCurve) {
  Chart chart{"spikes", "step", "value", true, {{"curve", "red", 1.0, 1.0, false, {}}}};
  for (int i = 0; i < 300; ++i)
    chart.series[0].points.push_back({double(i), i == 100 ? 1e6 : 1.0 + 0.001 * i});
  const std::string drawn = svg(chart);
  EXPECT_EQ(count(drawn, "1 point above"), 1u);
  EXPECT_EQ(count(drawn, "M</text>"), 0u);
}

/// Returns the JSON that chart_card wrote for the page's script.
nlohmann::json values_in(const std::string& card) {
  const std::string begin = "<script type=\"application/json\">", end = "</script>";
  const size_t at = card.find(begin) + begin.size();
  return nlohmann::json::parse(card.substr(at, card.find(end, at) - at));
}

TEST(Report, ChartsHaveTheValuesOfTheirCurves) {
  Chart chart{"two", "step", "nats", false, {}};
  chart.series.push_back({"a", "red", 1.0, 1.0, false, {{1, 2.123456}, {2, NAN}, {3, 1e-7}}, "first"});
  chart.series.push_back({"b", "blue", 1.0, 1.0, false, {{1, 5}}});
  const auto values = values_in(chart_card("Two", chart));
  EXPECT_EQ(values.at("unit"), "step");
  ASSERT_EQ(values.at("curves").size(), 1u) << "a series without a name is left out";
  EXPECT_EQ(values.at("curves")[0].at("name"), "first");
  EXPECT_EQ(values.at("curves")[0].at("points"), nlohmann::json::parse("[[1.0, 2.1235], [3.0, 1e-07]]"));
}

TEST(Report, ANameWithTagsStaysText) {
  const std::string name = "</script><img onerror=x> & 'q' \"\xff";
  Chart chart{"t", "step", "", false, {{name, "red", 1.0, 1.0, false, {{1, 2}}, name}}};
  const std::string card = chart_card(name, chart);
  EXPECT_EQ(count(card, "<img"), 0u);
  EXPECT_EQ(count(card, "</script>"), 1u);
  EXPECT_EQ(values_in(card).at("curves")[0].at("name"), "</script><img onerror=x> & 'q' \"\xEF\xBF\xBD");
}

TEST(MetricRow, ReadsBackWhatItWrote) {
  MetricRow row = rows(1)[0];
  row.loss = 0.1 + 0.2;
  row.outcome = HWS_STEP_SKIPPED_NON_FINITE;
  row.grad_norm = INFINITY;
  MetricRow back;
  ASSERT_TRUE(from_json(to_json(row), &back));
  EXPECT_EQ(back.loss, row.loss);
  EXPECT_EQ(back.outcome, row.outcome);
  EXPECT_TRUE(std::isnan(back.grad_norm));
  EXPECT_TRUE(std::isnan(back.validation_loss));
  EXPECT_FALSE(from_json(to_json(row).substr(0, 30), &back));
}

TEST(Quantity, ReadsWell) {
  EXPECT_EQ(count_text(950), "950");
  EXPECT_EQ(count_text(1840000), "1.84M");
  EXPECT_EQ(count_text(12345), "12.3k");
  EXPECT_EQ(bytes_text(85.0 * 1048576), "85 MiB");
  EXPECT_EQ(bytes_text(1.25 * 1073741824), "1.2 GiB");
  EXPECT_EQ(duration_text(72), "1m12s");
  EXPECT_EQ(duration_text(7500), "2h05m");
}

}  // namespace report_test
}  // namespace hawser::cli
