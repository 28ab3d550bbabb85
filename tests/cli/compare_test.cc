// Tests `hawser compare`: the page as a pure function of runs, and the command on runs that were trained.
#include "bindings/cli/report/compare.h"

#include <cmath>

#include "tests/cli/run_command.h"

namespace hawser::cli_test {
namespace compare_test {

using cli::compare_html, cli::ComparedRun, cli::MetricRow;

/// Returns a run whose loss falls to `floor`, with a validation every ten steps.
ComparedRun compared_run(const std::string& name, double floor, int steps = 200) {
  ComparedRun run{name, "/runs/" + name, "2026-11-28 01:04 UTC", {}, {}};
  run.resolved = {{"seed", 1}, {"optimizer", {{"learning_rate", floor}}}};
  for (int step = 1; step <= steps; ++step) {
    MetricRow row;
    row.step = step;
    row.loss = floor + 3.0 / step;
    row.validation_loss = step % 10 == 0 ? row.loss + 0.1 : std::nan("");
    row.tokens = 100;
    row.seconds = 0.5;
    run.rows.push_back(row);
  }
  return run;
}

size_t number_of(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

/// Returns the values that the page's script shows, chart by chart: training and validation loss over steps,
/// tokens and time.
std::vector<nlohmann::json> values_of_charts(const std::string& html) {
  const std::string begin = "<script type=\"application/json\">", end = "</script>";
  std::vector<nlohmann::json> charts;
  for (size_t at = html.find(begin); at != std::string::npos; at = html.find(begin, at + 1)) {
    const size_t from = at + begin.size();
    charts.push_back(nlohmann::json::parse(html.substr(from, html.find(end, from) - from)));
  }
  return charts;
}

TEST(CompareHtml, HasCurvesOverStepsTokensAndTime) {
  const auto charts = values_of_charts(compare_html({compared_run("a", 1.0), compared_run("b", 2.0)}));
  ASSERT_EQ(charts.size(), 6u);
  for (size_t axis = 0; axis < 3; ++axis) {
    const nlohmann::json &training = charts[2 * axis].at("curves"),
                         &validation = charts[2 * axis + 1].at("curves");
    ASSERT_EQ(training.size(), 2u);
    EXPECT_EQ(training[1].at("name"), "b");
    ASSERT_EQ(validation.at(0).at("points").size(), 20u);
    const double step[] = {1, 100, 0.5};  // of the axis
    EXPECT_EQ(validation.at(0).at("points").at(2).at(0), 30 * step[axis]);
    EXPECT_EQ(validation.at(0).at("points").at(2).at(1), 1.2);
    EXPECT_EQ(training[0].at("points").back().at(0), 200 * step[axis]);
  }
  EXPECT_EQ(charts[4].at("unit"), "seconds");
  EXPECT_EQ(values_of_charts(compare_html({compared_run("a", 1, 700), compared_run("b", 2)}))[4].at("unit"),
            "minutes");
}

TEST(CompareHtml, BeginsWithTheLowestValidationLoss) {
  auto without = compared_run("none", 0.5);
  for (MetricRow& row : without.rows) row.validation_loss = std::nan("");
  const std::string html = compare_html({without, compared_run("worse", 2.0), compared_run("better", 1.0)});
  const std::string table = html.substr(0, html.find("</table>"));
  EXPECT_NE(table.find("1.1150 at step 200"), std::string::npos) << table;
  EXPECT_LT(table.find(">better<"), table.find(">worse<"));
  EXPECT_LT(table.find(">worse<"), table.find(">none<"));
}

TEST(CompareHtml, ListsOnlyTheFieldsThatDiffer) {
  auto a = compared_run("a", 1.0), b = compared_run("b", 1.0);
  a.resolved["telemetry"]["tensorboard"] = "<folder>";
  b.resolved["seed"] = 2;
  const std::string html = compare_html({a, b});
  const std::string table = html.substr(html.find("that differ"));
  EXPECT_NE(table.find("<tr><td>/seed</td><td>1</td><td>2</td></tr>"), std::string::npos) << table;
  EXPECT_NE(table.find("<td>/telemetry/tensorboard</td><td>&lt;folder&gt;</td><td>-</td>"),
            std::string::npos);
  EXPECT_EQ(table.find("learning_rate"), std::string::npos);
  EXPECT_EQ(html.find("may be those of different"), std::string::npos);
  b.resolved = a.resolved;
  EXPECT_NE(compare_html({a, b}).find("All fields are equal."), std::string::npos);
  b.resolved["model"]["vocab_size"] = 300;
  EXPECT_NE(compare_html({a, b}).find("differ in /model/vocab_size, so"), std::string::npos);
}

TEST(CompareHtml, ShowsNamesAsTextAndLoadsNothing) {
  auto a = compared_run("</script><img src=x onerror=alert(1)>", 1.0);
  const std::string html = compare_html({a, compared_run("b & \"c\"", 2.0)});
  for (const char* part : {"<img", "://", "url(http", "nan", "<link"})
    EXPECT_EQ(number_of(html, part), 0u) << part;
  EXPECT_EQ(number_of(html, "</script>"), number_of(html, "<script"));
  EXPECT_EQ(values_of_charts(html)[0].at("curves")[0].at("name"), a.name);
}

TEST(CompareHtml, StandsRunsOfOneStepAndMoreRunsThanColours) {
  std::vector<ComparedRun> runs;
  for (int i = 0; i < 20; ++i) runs.push_back(compared_run("run " + std::to_string(i), i, 1));
  runs[3].rows[0].loss = std::nan("");
  runs[3].rows[0].seconds = std::nan("");
  const auto charts = values_of_charts(compare_html(runs));
  ASSERT_EQ(charts.size(), 3u) << "no run has validations";
  EXPECT_EQ(charts[0].at("curves").size(), 19u);
}

using Compare = CommandTest;

TEST_F(Compare, WritesAPageOfTwoRuns) {
  succeed("train config.json --data text.txt --set /train/steps=10 --out one");
  succeed("train config.json --data text.txt --set /seed=4 --set /train/steps=10 --out two");
  EXPECT_EQ(succeed("compare one two -o both.html").out, "wrote both.html\n");
  const std::string html = read_text(path("both.html"));
  EXPECT_NE(html.find("<td>/seed</td><td>3</td><td>4</td>"), std::string::npos);
  EXPECT_EQ(html.find("<td>/data"), std::string::npos) << "both have the same data";
  EXPECT_EQ(values_of_charts(html).at(1).at("curves").at(0).at("points").size(), 2u) << "at steps 5 and 10";
  refused("compare one two -o both.html", {"both.html already exists"});
  EXPECT_EQ(read_text(path("both.html")), html);

  fs::create_directory(folder_ / "other");
  fs::copy(path("two"), path("other/one"), fs::copy_options::recursive);
  succeed("compare one other/one -o same.html");
  EXPECT_EQ(values_of_charts(read_text(path("same.html")))[0].at("curves")[1].at("name"), "other/one");

  refused("compare one -o new.html", {"two or more runs", "one/report.html"});
  refused("compare one two/../one -o new.html", {"one and two/../one are the same run"});
  refused("compare one nosuch -o new.html", {"compare nosuch: no such folder"});
  refused("compare one other -o new.html", {"compare other: not the folder of a run"});
  refused("compare one two -o nosuch/new.html", {"nosuch/new.html", "No such file"});
  write_text(path("two/metrics.jsonl"), "{\"step\": 1, \"lo");
  refused("compare one two -o new.html", {"compare two: metrics.jsonl has no complete row"});
  auto resolved = nlohmann::json::parse(read_text(path("other/one/resolved.json")));
  resolved["objective"]["kind"] = "dpo";
  write_text(path("other/one/resolved.json"), resolved.dump());
  refused("compare one other/one -o new.html", {"objective \"cross_entropy\"", "\"dpo\"", "/objective/kind"});
  write_text(path("other/one/resolved.json"), "[1]");
  refused("compare one other/one -o new.html", {"compare other/one: resolved.json is not a JSON object"});
  EXPECT_FALSE(fs::exists(path("new.html")));
}

}  // namespace compare_test
}  // namespace hawser::cli_test
