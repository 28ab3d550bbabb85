// Tests ranks that divide experts on far devices (tests/harness/far_device), whose memory the host cannot
// access and whose work is late. The host receives the number of rows for each rank, and submits all work
// that depends on it. Rows are sent through host memory, or from device to device. Every result is
// bit-identical to the CPU's.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "engine/base/error.h"
#include "engine/config/config_tree.h"
#include "engine/plan/segments.h"
#include "engine/report/plan_report.h"
#include "tests/device/far_run.h"
#include "tests/harness/answers.h"
#include "tests/harness/expert_layouts.h"
#include "tests/harness/faulty_comm.h"
#include "tests/harness/layout_run.h"

namespace hawser::testing {
namespace far_experts_test {

using nlohmann::json;

constexpr const char* kTransports[] = {"host", "nccl"};
constexpr const char* kWords =
    "around blocks with experts, because the host counts the rows that ranks send there";

/// Returns a model with softmax scores and both losses; or with sigmoid scores, a bias, a shared expert and a
/// dense layer.
Problem problem_of(bool sigmoid, const char* precision = "fp32") {
  Problem problem;
  problem.precision = precision, problem.like_gpt2 = sigmoid;
  problem.experts = sigmoid ? R"({"experts": 8, "top_k": 3, "width": 12, "score": "sigmoid", "layers": [1],
                                  "shared_width": 20})"
                            : R"({"experts": 12, "top_k": 2, "width": 20})";
  problem.moe =
      sigmoid ? R"({"aux_loss": 0.1, "balance_rate": 0.05})" : R"({"aux_loss": 0.3, "z_loss": 0.1})";
  return problem;
}

/// Returns the calls of each group in all steps so far, and the bytes of the `ep` groups, in total and by
/// rank. Gradients have more bytes on a device than on the CPU, because a device pads the table of the
/// vocabulary.
std::pair<json, std::vector<int64_t>> sent(LayoutRun& run) {
  json total = json::parse(run.trainer().metrics().json()).at("communication_total");
  for (auto& [name, group] : total.items()) {
    group.erase("all_reduce_i64");  // small collectives
    for (json& operation : group) {
      operation.erase("wire_bytes");
      if (name != "ep") operation.erase("bytes");
    }
  }
  total.erase("cp (hosts)");
  EXPECT_TRUE(total.contains("ep")) << total;
  std::vector<int64_t> bytes(static_cast<size_t>(run.trainer().ranks().here()));
  run.trainer().ranks().on_each([&](train::Rank& rank, int32_t r) {
    for (const auto& operation : rank.groups().ep->traffic().by_operation)
      bytes[static_cast<size_t>(r)] += operation.bytes;
  });
  return {total, bytes};
}

/// Expects bit-identical results after three steps, equal traffic, and the memory of the plan.
void expect_like_cpu(const Problem& problem, const Layout& layout, bool hot = false) {
  std::vector<StepRecord> want;
  std::pair<json, std::vector<int64_t>> traffic;
  for (const char* transport : {"", "host", "nccl"}) {
    SCOPED_TRACE(layout.name() + " " + problem.precision + " " + transport);
    LayoutRun run(*transport == 0 ? problem : far(problem, transport), layout);
    if (hot) send_all_to_the_first(&run, 12);
    std::vector<StepRecord> records;
    for (int step = 0; step < 3; ++step) records.push_back(run.step());
    if (*transport == 0) {
      want = records, traffic = sent(run);
      continue;
    }
    EXPECT_EQ(first_difference(want, records), "");
    EXPECT_EQ(sent(run), traffic);
    run.trainer().ranks().on_each([&](train::Rank& rank, int32_t) {
      EXPECT_EQ(rank.executor().slots().high_water(), rank.plans().train.peak_bytes);
      EXPECT_EQ(rank.executor().slots().live_at_peak(), rank.plans().train.at_peak);
    });
  }
}

TEST(FarExperts, AreThoseOfTheCpu) {
  for (const char* precision : {"fp32", "bf16"})
    for (const bool sigmoid : {false, true}) {
      Layout layout = over(2, 2);
      layout.accumulation = 2;
      expect_like_cpu(problem_of(sigmoid, precision), layout);
    }
  expect_like_cpu(problem_of(false, "bf16_pure"), over(4, 4, 64));
}

TEST(FarExperts, InManyRoundsAreThoseOfTheCpu) {
  for (const char* precision : {"fp32", "bf16"}) {
    expect_like_cpu(problem_of(false, precision), over(2, 2, 0.3), true);
    expect_like_cpu(problem_of(true, precision), over(4, 2, 0.4));
  }
  Layout again = over(4, 4, 0.5);
  again.recompute = R"({"policy": "full"})", again.accumulation = 2;
  expect_like_cpu(problem_of(false), again, true);
}

TEST(FarExperts, OfShardsReplicasAndRowsAreThoseOfTheCpu) {
  Layout zero3 = over(4, 2), hybrid = over(2, 2), pairs = over(1, 2), columns = over(1, 2);
  zero3.stage = 3, zero3.accumulation = 2;
  hybrid.dp_replicate = 2, hybrid.stage = 1;
  pairs.tp = 2, pairs.dp_shard = 2;
  columns.cp = 2;
  for (const Layout& layout : {zero3, hybrid, pairs, columns})
    for (const char* precision : {"fp32", "bf16"})
      expect_like_cpu(problem_of(layout.tp == 2, precision), layout);
}

/// A pipeline keeps the host's counts of several micro-batches; with two passes, the backward reads them once
/// more. In dualpipev, exchanges of two micro-batches overlap.
TEST(FarExperts, OfStagesAreThoseOfTheCpu) {
  for (const std::string schedule : {"1f1b", "zb_h1", "dualpipev"}) {
    Problem problem = problem_of(false, schedule[0] == 'z' ? "bf16" : "fp32");
    problem.layers = 4;
    Layout layout = over(2, 2);
    layout.pp = 2, layout.schedule = schedule, layout.accumulation = 4;
    expect_like_cpu(problem, layout);
  }
}

TEST(FarExperts, ComeBackWithOffloadedActivations) {
  Problem problem = problem_of(false);
  problem.layers = 6;
  const Layout layout = over(2, 2);
  Layout away = layout;
  away.offload = R"({"activations": "host"})";
  const std::vector<StepRecord> cpu = run_layout(problem, layout, 3);
  for (const char* transport : kTransports)
    EXPECT_EQ(first_difference(cpu, run_layout(far(problem, transport), away, 3)), "") << transport;
}

TEST(FarExperts, AnswerAsTheCpuDoes) {
  const Problem problem = problem_of(false);
  const Layout layout = over(4, 2, 0.5);
  LayoutRun cpu(problem, layout);
  const Answers want = ask(cpu.trainer(), problem, 12);
  for (const char* transport : kTransports) {
    LayoutRun run(far(problem, transport), layout);
    const Answers got = ask(run.trainer(), problem, 12);
    EXPECT_EQ(got.logits, want.logits) << transport;
    EXPECT_EQ(got.logprobs, want.logprobs) << transport;
    EXPECT_EQ(got.text, want.text) << transport;
  }
}

/// Groups of ranks take different numbers of rounds, so their devices run different calls, which is not an
/// error.
TEST(FarExperts, OfGroupsWithOtherLoadsAreNoMistake) {
  Problem problem = problem_of(false);
  problem.micro_batch = 1;
  expect_like_cpu(problem, over(4, 2, 0.1));
}

/// Returns the error of a step; kOk if there is none.
Error error_of(LayoutRun& run) {
  try {
    run.step();
  } catch (const Error& error) {
    return error;
  }
  return Error(Code::kOk, "");
}

/// The host waits for counts that never arrive only until the deadline, and reads none.
TEST(FarExperts, NameARankThatHangs) {
  constexpr double kDeadline = 2;
  bool hung = false;
  const auto comm = std::make_shared<FaultyComm>(2, 1, kDeadline, [&hung](comm::Operation now) {
    if (now != comm::Operation::kAllGather || std::exchange(hung, true)) return;
    // Much longer than the deadline: on a busy machine, rank 0 detects the missing rank late.
    std::this_thread::sleep_for(std::chrono::duration<double>(4 * kDeadline));
  });
  Problem problem = far(problem_of(false), "nccl");
  problem.weights_every = 0;
  LayoutRun run(problem, over(2, 2), comm);
  EXPECT_EQ(error_of(run).code(), Code::kOk);
  comm->arm();
  const Error error = error_of(run);
  EXPECT_EQ(error.code(), Code::kTimeout) << error.message();
  for (const char* words : {"of group 'ep'", "rank 1 never entered"})
    EXPECT_NE(error.message().find(words), std::string::npos) << error.message();
}

/// Each rank's calls are compared only within its own group of experts.
TEST(FarExperts, NameAWrongCallInTheNextStep) {
  Layout layout = over(4, 2);
  layout.stage = 1;
  const auto comm = std::make_shared<FaultyComm>(4, 3, 20, [](comm::Operation) {});
  LayoutRun run(far(problem_of(false), "nccl"), layout, comm);
  EXPECT_EQ(error_of(run).code(), Code::kOk);
  comm->mistake_types(true);
  EXPECT_EQ(error_of(run).code(), Code::kOk);
  comm->mistake_types(false);
  const Error error = error_of(run);
  EXPECT_EQ(error.code(), Code::kInvalidArgument) << error.message();
  for (const char* words : {"rank 2 calls all_gather of", "rank 3 calls all_gather of"})
    EXPECT_NE(error.message().find(words), std::string::npos) << error.message();
}

/// A graph ends before a block whose rows the host counts, and the next graph begins after it.
TEST(FarExperts, CutGraphs) {
  Problem problem = problem_of(true);
  problem.layers = 3, problem.weights_every = 0;  // the second of three layers is sparse
  const Layout layout = over(2, 2);
  const std::vector<StepRecord> cpu = run_layout(problem, layout, 4);
  for (const char* transport : kTransports) {
    LayoutRun run(far(problem, transport), layout);
    std::vector<StepRecord> records;
    for (int step = 0; step < 4; ++step) records.push_back(run.step());
    EXPECT_EQ(first_difference(cpu, records), "") << transport;
    const json info = json::parse(run.trainer().reports().info_json());
    EXPECT_FALSE(info.contains("graphs_without")) << info.value("graphs_without", "");
    const auto config = config::ConfigTree::from_json(layout_config(far(problem, transport), layout));
    const json plan = json::parse(train::plan_report(config, true));
    EXPECT_EQ(info.at("graphs").at("captured"), 2 * plan.at("step_graphs").get<int64_t>()) << transport;
    EXPECT_EQ(info.at("graphs").at("launched"), 3 * info.at("graphs").at("captured").get<int64_t>());
    EXPECT_EQ(plan.at("graphs_cut"), kWords);
    EXPECT_NE(train::plan_report(config, false).find(kWords), std::string::npos);
    const plan::Plan& train = run.trainer().ranks().first().plans().train;
    int cut = 0;
    for (const plan::Segment& segment : plan::segments(train, 0, train.instructions.size()))
      for (size_t i = segment.begin; i < segment.end; ++i) EXPECT_FALSE(train.instructions[i].host) << i;
    for (const plan::Instruction& n : train.instructions) cut += n.host ? 1 : 0;
    EXPECT_EQ(cut, 2) << "forward and backward";
  }
  const auto alone = config::ConfigTree::from_json(layout_config(far(problem, "host"), over(2, 1)));
  EXPECT_FALSE(json::parse(train::plan_report(alone, true)).contains("graphs_cut"));
}

/// Nothing is pinned for the CPU; for a device, the largest exchange at any load is.
TEST(FarExperts, PinWhatThePlanSays) {
  const Problem problem = problem_of(false);
  const Layout layout = over(2, 2, 0.5);
  const auto pinned = [&](const Problem& p) {
    return LayoutRun(p, layout).trainer().ranks().first().plans().pinned;
  };
  EXPECT_EQ(pinned(problem).bytes(), 0);
  constexpr int64_t kRound = 12, kWidth = 24, kCalls = 2, kRanks = 2, kExperts = 12;
  const train::PinnedBytes host = pinned(far(problem, "host")), peers = pinned(far(problem, "nccl"));
  EXPECT_EQ(host.exchange, 2 * kRanks * kRound * kWidth * 4) << "as many rows may come as go";
  EXPECT_EQ(peers.exchange, 0);
  for (const train::PinnedBytes& p : {host, peers})
    EXPECT_EQ(p.counts, ((kCalls * kRanks * kExperts + kExperts + kRanks) * 4 + 63) / 64 * 64);
}

}  // namespace far_experts_test
}  // namespace hawser::testing
