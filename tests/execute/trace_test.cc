// Trace tests: the trace of a step of several ranks has every instruction of the plan, on its stream and in
// order, and no instruction ran before what it waits for.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "engine/plan/pipeline_replay.h"
#include "tests/harness/layout_run.h"
#include "tests/harness/schedules.h"
#include "tests/harness/spawn_ranks.h"

namespace hawser::testing {
namespace trace_test {

using Json = nlohmann::json;

void expect_sound(const plan::Plan& plan, const plan::Timeline& line) {
  ASSERT_EQ(line.times.size(), plan.instructions.size());
  double compute = 0, communication = 0;  // ends of the last compute instruction and transfer
  for (size_t i = 0; i < line.times.size(); ++i) {
    SCOPED_TRACE(i);
    const plan::Instruction& n = plan.instructions[i];
    const plan::Times& t = line.times[i];
    EXPECT_LE(compute, t.ready);
    EXPECT_LE(t.begin, t.end);
    if (n.sent_bytes > 0) {
      EXPECT_LE(communication, t.sent_begin);
      EXPECT_LT(t.sent_begin, t.sent_end);
      EXPECT_LE(t.ready, t.sent_begin);
      communication = t.sent_end;
    }
    if (n.is_transfer()) continue;
    EXPECT_LE(t.ready, t.begin);
    if (const int32_t awaited = n.waits_for.newest(); awaited >= 0) {
      EXPECT_LE(line.times[static_cast<size_t>(awaited)].sent_end, t.begin);
    }
    if (plan::starts_with_collective(n)) {
      EXPECT_LE(t.sent_end, t.begin);
    }
    compute = t.end;
  }
  const plan::Overlap o = plan::overlap_of(plan, line);
  EXPECT_GT(o.communication_busy, 0);
  EXPECT_LE(o.hidden, o.communication_busy);
  EXPECT_LE(o.behind_backward, o.hidden);
  EXPECT_LE(o.compute_busy + o.exposed, o.makespan);
}

TEST(Trace, HoldsWhatLeavesTheArena) {
  for (const int64_t ranks : {1, 2}) {
    Problem p;
    p.layers = 8;
    Layout l;
    l.dp_shard = ranks, l.stage = ranks == 1 ? 0 : 3;
    l.offload = R"({"activations": "disk", "folder": ")" + ::testing::TempDir() + R"("})";
    LayoutRun run(p, l);
    run.trainer().traces().set(true);
    run.step();
    const plan::Plan& plan = run.trainer().ranks().first().plans().train;
    const plan::Timeline line = run.trainer().traces().timeline(0);
    double ends[2] = {};
    int64_t moves = 0;
    for (size_t i = 0; i < line.times.size(); ++i) {
      const plan::Instruction& n = plan.instructions[i];
      if (!plan::is_move(n.op)) continue;
      const plan::Times& t = line.times[i];
      double& end = ends[n.op == plan::Op::kFetch];
      EXPECT_LT(t.begin, t.end);
      EXPECT_LE(t.ready, t.begin);
      EXPECT_LE(end, t.end);
      end = t.end, ++moves;
    }
    EXPECT_GT(moves, 8);
    EXPECT_GT(plan::overlap_of(plan, line).communication_busy, 0);
  }
}

/// Each rank has the events of its own plan, the two sides of a message overlap in time, and the simulator
/// predicts the step from its costs (bench_forecast measures how well).
TEST(Trace, HoldsEveryStageOfAPipeline) {
  for (const char* schedule : {"1f1b", "interleaved", "zb_h1", "zbv"}) {
    Problem p;
    p.layers = 4;
    Layout l;
    l.pp = 2, l.schedule = schedule, l.chunks = chunks_of(schedule), l.accumulation = 4;
    l.tp = schedule[0] == '1' ? 2 : 1;
    SCOPED_TRACE(l.name());
    LayoutRun run(p, l);
    run.trainer().traces().set(true);
    run.step();
    std::map<plan::Lane, std::vector<plan::Times>> sent[2];
    for (size_t stage = 0; stage < 2; ++stage) {
      const auto rank = static_cast<int32_t>(stage) * static_cast<int32_t>(l.tp);
      const plan::Plan& plan = run.trainer().ranks().at(rank).plans().train;
      const plan::Timeline line = run.trainer().traces().timeline(rank);
      ASSERT_EQ(line.times.size(), plan.instructions.size());
      for (size_t i = 0; i < line.times.size(); ++i)
        if (plan::is_message(plan.instructions[i].op))
          sent[stage][plan.instructions[i].lane].push_back(line.times[i]);
    }
    ASSERT_FALSE(sent[0].empty());
    for (const auto& [lane, messages] : sent[0]) {
      const std::vector<plan::Times>& there = sent[1].at(plan::other_end(0, lane, 2).lane);
      ASSERT_EQ(there.size(), messages.size()) << plan::lane_name(lane);
      for (size_t k = 0; k < messages.size(); ++k)
        EXPECT_LT(std::max(messages[k].sent_begin, there[k].sent_begin),
                  std::min(messages[k].sent_end, there[k].sent_end));
    }
    const Json report = Json::parse(run.trainer().traces().report(train::TraceForm::kJson));
    std::map<int, int> events;
    for (const Json& event : report.at("traceEvents")) ++events[event.at("pid").get<int>()];
    EXPECT_GT(events.at(0), 20);
    EXPECT_GT(events.at(1), 20);
    const Json& pipeline = report.at("otherData").at("pipeline");
    EXPECT_GT(pipeline.at("seconds"), 0.0);
    EXPECT_GT(pipeline.at("predicted_seconds"), pipeline.at("seconds").get<double>() / 2);
    EXPECT_LT(pipeline.at("predicted_seconds"), pipeline.at("seconds").get<double>() * 2);
    EXPECT_NE(run.trainer().traces().report(train::TraceForm::kText).find("predicted from its own costs"),
              std::string::npos);
  }
}

TEST(Trace, HoldsEveryInstructionOfEveryRank) {
  for (const int64_t stage : {0, 1, 2, 3})
    for (const char* precision : {"fp32", "bf16"}) {
      Problem p;
      p.precision = precision;
      Layout l;
      l.dp_shard = 3, l.stage = stage, l.accumulation = 2, l.reduce = "per_micro_batch";
      SCOPED_TRACE(l.name());
      LayoutRun run(p, l);
      run.trainer().traces().set(true);
      for (int step = 0; step < 2; ++step) {
        run.step();
        for (int r = 0; r < 3; ++r)
          expect_sound(run.trainer().ranks().first().plans().train, run.trainer().traces().timeline(r));
      }
    }
}

/// A rank records its last 2,048 finished calls; a step may have more.
TEST(Trace, LosesNothingOfALongStep) {
  Problem p;
  p.micro_batch = 1, p.sequence = 4;
  Layout l;
  l.dp_shard = 2, l.stage = 3, l.accumulation = 512, l.reduce = "per_micro_batch";
  LayoutRun run(p, l);
  int64_t transfers = 0;
  for (const plan::Instruction& n : run.trainer().ranks().first().plans().train.instructions)
    transfers += n.is_transfer();
  ASSERT_GT(transfers, 2 * 2048);
  run.trainer().traces().set(true);
  run.step();
  expect_sound(run.trainer().ranks().first().plans().train, run.trainer().traces().timeline(0));
}

TEST(Trace, SaysTheSameAsTraceEvents) {
  Layout l;
  l.dp_shard = 2, l.stage = 3;
  LayoutRun run({}, l);
  run.trainer().traces().set(true);
  run.step();
  const plan::Plan& plan = run.trainer().ranks().first().plans().train;
  const Json report = Json::parse(run.trainer().traces().report(train::TraceForm::kJson));
  std::map<std::pair<int, int>, std::vector<Json>> threads;  // rank and stream
  std::map<std::pair<int, int>, std::string> names;
  for (const Json& e : report.at("traceEvents")) {
    const std::pair thread(e.at("pid").get<int>(), e.at("tid").get<int>());
    if (e.at("ph") == "X") threads[thread].push_back(e);
    if (e.at("name") == "thread_name") names[thread] = e.at("args").at("name").get<std::string>();
  }
  ASSERT_EQ(threads.size(), 4u);
  for (const auto& [thread, events] : threads) {
    EXPECT_EQ(names[thread], thread.second == 0 ? "compute" : "communication");
    int64_t bytes = 0;
    size_t instructions = 0;
    for (const Json& e : events) {
      EXPECT_GE(e.at("ts").get<double>(), 0);
      EXPECT_GE(e.at("dur").get<double>(), 0);
      instructions += e.at("cat") == "compute";
      if (thread.second == 1) bytes += e.at("args").at("bytes").get<int64_t>();
    }
    int64_t sent = 0;
    size_t computed = 0;
    for (const plan::Instruction& n : plan.instructions) sent += n.sent_bytes, computed += !n.is_transfer();
    EXPECT_EQ(bytes, thread.second == 1 ? sent : 0);
    EXPECT_EQ(instructions, thread.second == 0 ? computed : 0);
  }
  ASSERT_EQ(report.at("otherData").at("ranks").size(), 2u);
  const double hidden = plan::overlap_of(plan, run.trainer().traces().timeline(1)).hidden_share();
  EXPECT_EQ(report.at("otherData").at("ranks")[1].at("hidden_share").get<double>(), hidden);
}

/// The plan has two lanes of transfers, and a save uses a third.
TEST(Trace, FindsCallsInTheLaneThatTheyWereIssuedIn) {
  spawn_ranks(2, [](comm::RankComm& rank) {
    const auto one = world_group(rank);
    const auto two = rank.make_group({0, 1}, "activations", {"activations", false});
    const auto save = rank.make_group({0, 1}, "saves", {"saves", false});
    plan::Plan plan;
    plan.instructions.resize(4);
    for (size_t i = 0; i < 4; ++i) {
      plan.instructions[i].op = plan::Op::kUnshard;
      plan.instructions[i].lane = i % 2 == 0 ? plan::Lane::kDataParallel : plan::Lane::kXToNext;
    }
    plan.commit = plan.instructions.size();
    train::StepTrace trace(plan, &rank);
    two->wait(two->barrier());  // before the step
    trace.begin_half(0);
    save->wait(save->barrier());
    std::array<comm::Work, 4> works;
    std::vector<char> data(8);
    for (size_t i = 0; i < 4; ++i) {
      trace.turn(i);
      trace.starts(i);
      works[i] = i % 2 == 0 ? one->broadcast(data.data(), 4, 0) : two->broadcast(data.data() + 4, 4, 1);
      trace.issued(i, works[i]);
      trace.ended(i, 0);
    }
    trace.drains();
    one->wait(works[2]);
    two->wait(works[3]);
    trace.end_half(4);
    const plan::Timeline line = trace.timeline();
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_LT(line.times[i].sent_begin, line.times[i].sent_end) << i;
      EXPECT_LE(line.times[i].ready, line.times[i].sent_end) << i;
      if (i >= 2) {
        EXPECT_LE(line.times[i - 2].sent_end, line.times[i].sent_begin) << "in order in each lane";
      }
    }
    const auto lanes = trace.lanes();
    ASSERT_EQ(lanes.size(), 3u);
    EXPECT_EQ(lanes[0].name, "main");
    EXPECT_EQ(lanes[1].name, "activations");
    EXPECT_EQ(lanes[2].name, "saves");
    EXPECT_TRUE(lanes[0].planned && lanes[1].planned);
    EXPECT_FALSE(lanes[2].planned);
    EXPECT_EQ(lanes[0].calls.size(), 2u);
    EXPECT_EQ(lanes[1].calls.size(), 2u);
    ASSERT_EQ(lanes[2].calls.size(), 1u);
    EXPECT_EQ(lanes[2].calls[0].operation, comm::Operation::kBarrier);
  });
}

TEST(Trace, IsThereOnlyWhenItWasAskedFor) {
  Layout l;
  l.dp_shard = 2;
  LayoutRun run({}, l);
  const auto refuses = [&] {
    try {
      run.trainer().traces().report(train::TraceForm::kJson);
    } catch (const Error& e) {
      return e.code() == Code::kFailedPrecondition;
    }
    return false;
  };
  run.step();
  EXPECT_TRUE(refuses());
  run.trainer().traces().set(true);
  EXPECT_TRUE(refuses());
  run.step();
  EXPECT_FALSE(refuses());
  run.trainer().traces().set(false);
  EXPECT_TRUE(refuses());
}

}  // namespace trace_test
}  // namespace hawser::testing
