// Tests that the trace of a predicted step has the form of a measured one, and that its events and its
// picture add up to what the report says.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>

#include "engine/cluster/cluster.h"
#include "engine/report/foretold_report.h"
#include "tests/harness/layout_run.h"

namespace hawser::testing {
namespace foretold_trace_test {

using Json = nlohmann::ordered_json;
using train::TraceForm;

/// An H100's rates for the kernels of a CPU, so that the plan is that of this machine.
std::string cpu_cluster(const std::string& name = "a cluster") {
  Json cluster = Json::parse(cluster::cluster_json("h100-80"));
  cluster["name"] = name, cluster["device"]["kind"] = "cpu";
  return cluster.dump();
}

Problem problem() {
  Problem problem;
  problem.layers = 4;
  return problem;
}

Layout pipeline() {
  Layout l;
  l.pp = 2, l.tp = 2, l.accumulation = 4;
  return l;
}

train::PlanTexts predicted(const Layout& layout, const std::string& cluster = cpu_cluster()) {
  return train::foretold_plan(config::ConfigTree::from_json(layout_config(problem(), layout)), cluster, 0);
}

/// The names and threads of all events of a process. Waits are left out, because they depend on seconds, and
/// so are the lanes that a plan does not use.
std::multiset<std::string> events_of(const Json& trace, int32_t rank) {
  std::multiset<std::string> all;
  for (const Json& event : trace.at("traceEvents"))
    if (event.at("pid") == rank && event.at("tid") < static_cast<int>(plan::kLanes) &&
        event.value("cat", "") != "wait" && event.value("name", "") != "process_name")
      all.insert(fmt::format("{} {} {} {} {}", event.at("ph").get<std::string>(),
                             event.at("name").get<std::string>(), event.value("cat", ""),
                             event.at("tid").get<int>(),
                             event.value("args", Json::object()).value("bytes", int64_t{-1})));
  return all;
}

TEST(ForetoldTrace, HasTheEventsOfAMeasuredStep) {
  LayoutRun run(problem(), pipeline());
  run.trainer().traces().set(true);
  run.step();
  const Json measured = Json::parse(run.trainer().traces().report(TraceForm::kJson));
  const Json trace = Json::parse(predicted(pipeline()).trace(TraceForm::kJson));
  for (const int32_t first_of_stage : {0, 2}) {
    const std::multiset<std::string> there = events_of(measured, first_of_stage);
    EXPECT_GT(there.size(), 50u);
    EXPECT_EQ(events_of(trace, first_of_stage), there) << first_of_stage;
  }
  EXPECT_TRUE(events_of(trace, 1).empty());  // as rank 0
  const Json &facts = trace.at("otherData"), &were = measured.at("otherData");
  ASSERT_EQ(facts.at("ranks").size(), 2u);
  for (const auto& [key, value] : were.at("ranks")[0].items())
    EXPECT_TRUE(facts.at("ranks")[1].contains(key)) << key;
  EXPECT_EQ(facts.at("ranks")[1].at("rank"), 2);
  EXPECT_EQ(facts.at("predicted"), true);
  EXPECT_EQ(facts.at("cluster"), "a cluster");
}

/// Lanes run one thing at a time, and the last event ends with the step.
TEST(ForetoldTrace, EventsFillTheStep) {
  Layout layout = pipeline();
  layout.dp_shard = 2, layout.stage = 2;
  const train::PlanTexts texts = predicted(layout);
  const double seconds = Json::parse(texts.json).at("foretold").at("seconds");
  const Json trace = Json::parse(texts.trace(TraceForm::kJson));
  std::map<std::pair<int, int>, double> ends;
  std::map<int, double> busy;
  double last = 0;
  for (const Json& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X") continue;
    const double begin = event.at("ts"), end = begin + event.at("dur").get<double>();
    last = std::max(last, end);
    if (event.at("cat") == "compute") busy[event.at("pid")] += end - begin;
    if (event.at("cat") == "wait") continue;
    double& before = ends[{event.at("pid"), event.at("tid")}];
    EXPECT_GE(begin, before - 1e-6) << event;
    before = end;
  }
  EXPECT_NEAR(last, 1e6 * seconds, 1e-3);
  ASSERT_EQ(busy.size(), 2u);
  for (const Json& rank : trace.at("otherData").at("ranks"))
    EXPECT_NEAR(busy.at(rank.at("rank")), 1e6 * rank.at("compute_seconds").get<double>(), 1e-3);
}

struct Rectangle {
  double x, y, width;
  std::string colour;
};

std::vector<Rectangle> rectangles_of(const std::string& svg) {
  static const std::regex kRectangle(
      R"re(<rect x="([^"]+)" y="([^"]+)" width="([^"]+)" height="[^"]+" fill="([^"]+)"/>)re");
  std::vector<Rectangle> all;
  for (std::sregex_iterator r(svg.begin(), svg.end(), kRectangle), end; r != end; ++r)
    all.push_back({std::stod((*r)[1]), std::stod((*r)[2]), std::stod((*r)[3]), (*r)[4]});
  return all;
}

/// Coloured parts of the row of the compute lane are as long as the instructions in it.
TEST(ForetoldTrace, PictureShowsHowLongEachLaneRuns) {
  const train::PlanTexts texts = predicted(pipeline());
  const Json facts = Json::parse(texts.trace(TraceForm::kJson)).at("otherData");
  const std::string svg = texts.trace(TraceForm::kSvg);
  EXPECT_EQ(svg.find("<svg "), 0u);
  std::vector<double> rows;  // where the row of each compute lane begins
  std::map<double, double> coloured;
  for (const Rectangle& r : rectangles_of(svg)) {
    if (r.width == 1200 && (rows.empty() || r.y > rows.back())) rows.push_back(r.y);
    if (r.width < 1200 && r.width != 12) coloured[r.y] += r.width;  // 12: the legend's
  }
  ASSERT_GE(rows.size(), 4u);  // of each stage: compute and messages
  const double seconds = facts.at("seconds");
  EXPECT_NEAR(coloured.at(rows[0]), 1200 * facts.at("ranks")[0].at("compute_seconds").get<double>() / seconds,
              12);
  for (const char* const words : {"rank 0 (stage 0)", "rank 2 (stage 1)", "x_to_next",
                                  "backward, weight pass", "a predicted step of 4 ranks of a cluster: "})
    EXPECT_NE(svg.find(words), std::string::npos) << words;
}

TEST(ForetoldTrace, PictureOfALongStepIsNoLarger) {
  Layout layout = pipeline();
  layout.tp = 1, layout.schedule = "zb_h1";
  const size_t few = predicted(layout).trace(TraceForm::kSvg).size();
  layout.accumulation = 512;
  const std::string many = predicted(layout).trace(TraceForm::kSvg);
  EXPECT_LT(many.size(), 1'000'000u) << few;
}

TEST(ForetoldTrace, NamesCannotBreakThePicture) {
  const std::string svg = predicted(pipeline(), cpu_cluster("<b>R&D</b>")).trace(TraceForm::kSvg);
  EXPECT_NE(svg.find("&lt;b>R&amp;D&lt;/b>"), std::string::npos);
  EXPECT_EQ(svg.find("<b>"), std::string::npos);
}

TEST(ForetoldTrace, IsTheSameEveryTime) {
  for (const TraceForm form : {TraceForm::kText, TraceForm::kJson, TraceForm::kSvg})
    EXPECT_EQ(predicted(pipeline()).trace(form), predicted(pipeline()).trace(form));
}

}  // namespace foretold_trace_test
}  // namespace hawser::testing
