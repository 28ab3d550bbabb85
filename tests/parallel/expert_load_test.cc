// Expert load test: ranks that divide experts, at loads from none to all rows on one rank: the plan's memory,
// and the exact bytes that the routing sends.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <numeric>

#include "tests/harness/expert_layouts.h"
#include "tests/harness/layout_run.h"

namespace hawser::testing {
namespace expert_load_test {

using Json = nlohmann::ordered_json;

Problem two_of_twelve() {
  Problem problem;
  problem.like_gpt2 = false;
  problem.experts = R"({"experts": 12, "top_k": 2, "width": 20})";
  problem.moe = R"({"aux_loss": 0.3, "z_loss": 0.1})";
  return problem;
}

TEST(ExpertLoad, PlannedMemoryIsWhatIsUsedAtEveryLoad) {
  for (const double factor : {0.5, 1.0, 64.0})
    for (const bool hot : {false, true}) {
      const Problem problem = two_of_twelve();
      Layout layout = over(4, 2, factor);
      layout.accumulation = 2;
      LayoutRun run(problem, layout);
      if (hot) send_all_to_the_first(&run, 12);
      const StepRecord record = run.step();
      if (hot) {
        EXPECT_EQ(Json::parse(record.loads).at(1).at("idle"), 10);
        const std::vector<float>& gradient = record.gradients.at("blocks.1.moe.experts.up.weight");
        EXPECT_EQ(std::count(gradient.end() - 10 * 20 * 24, gradient.end(), 0.0f), 10 * 20 * 24);
        EXPECT_NE(std::count(gradient.begin(), gradient.begin() + 2 * 20 * 24, 0.0f), 2 * 20 * 24);
      }
      run.trainer().ranks().on_each([&](train::Rank& rank, int32_t) {
        EXPECT_EQ(rank.executor().slots().high_water(), rank.plans().train.peak_bytes);
        EXPECT_EQ(rank.executor().slots().live_at_peak(), rank.plans().train.at_peak);
      });
    }
}

/// All rows are sent to two experts of the first of two ranks, so the formulas of expert_parallel.h give the
/// bytes of each rank. Plans assume a balanced load.
TEST(ExpertLoad, SendsWhatTheRoutingSays) {
  for (const auto& [precision, factor] : {std::pair{"fp32", 64.0}, {"fp32", 0.5}, {"bf16", 1.0}}) {
    Problem problem = two_of_twelve();
    problem.precision = precision;
    LayoutRun run(problem, over(2, 2, factor));
    send_all_to_the_first(&run, 12);
    run.step();
    const int64_t layers = 2, counts = layers * 4 * 12, a = problem.precision == "fp32" ? 4 : 2, row = 24 * a;
    const int64_t rows = 2 * 12 * 2;  // rows of a rank, each sent twice
    const auto round = std::min<int64_t>(rows, static_cast<int64_t>(factor * static_cast<double>(rows) / 2));
    const int64_t again = (rows - round) * (row + 4);
    run.trainer().ranks().on_each([&](train::Rank& rank, int32_t r) {
      const comm::Traffic sent = rank.groups().ep->traffic();
      const auto bytes = [&](comm::Operation op) { return sent.by_operation[static_cast<size_t>(op)].bytes; };
      EXPECT_EQ(bytes(comm::Operation::kAllGather), counts);
      const int64_t forward = r == 0 ? rows * row : rows * (row + 4);
      const int64_t backward = r == 0 ? rows * (row + 4) : rows * row + again;
      EXPECT_EQ(bytes(comm::Operation::kAllToAll), layers * (forward + backward)) << r << " " << round;
    });
    int64_t planned = 0;
    for (const plan::Instruction& n : run.trainer().ranks().first().plans().train.instructions)
      for (const ExchangeNote& note : n.exchanges) planned += note.bytes;
    const int64_t each = rows / 2, later = std::max<int64_t>(0, each - round);
    EXPECT_EQ(planned, counts + layers * (2 * each * (2 * row + 4) + later * (row + 4)));
  }
}

/// Returns the two experts of each token: if attention adds nothing, they follow from the token's embedding.
std::vector<std::array<int64_t, 2>> choices_of_tokens(LayoutRun* run, int64_t experts) {
  const auto get = [&](const char* name, int64_t elements) {
    std::vector<float> values(static_cast<size_t>(elements));
    run->trainer().tensors().get(train::TensorKind::kWeight, name, values.data(),
                                 values.size() * sizeof(float));
    return values;
  };
  const std::vector<float> tokens = get("embedding.tokens.weight", 53 * 24),
                           router = get("blocks.0.moe.router.weight", experts * 24);
  std::vector<std::array<int64_t, 2>> choices;
  for (size_t token = 0; token < 53; ++token) {
    std::vector<std::pair<double, int64_t>> scores;
    for (size_t e = 0; e < static_cast<size_t>(experts); ++e)
      scores.emplace_back(
          -std::inner_product(&tokens[token * 24], &tokens[token * 24] + 24, &router[e * 24], 0.0),
          static_cast<int64_t>(e));
    std::sort(scores.begin(), scores.end());
    EXPECT_GT(scores[2].first - scores[1].first, 1e-6) << "a near tie";
    choices.push_back({scores[0].second, scores[1].second});
  }
  return choices;
}

/// For any load, computes each rank's bytes from the destinations of its tokens.
TEST(ExpertLoad, SendsToTheByteWhatLeavesARankAtAnyLoad) {
  for (const double factor : {64.0, 0.6}) {
    Problem problem = two_of_twelve();
    problem.layers = 1, problem.dropout = 0;
    LayoutRun run(problem, over(4, 4, factor));
    const std::vector<float> zeros(24 * 40, 0.0f);
    run.trainer().tensors().set(train::TensorKind::kWeight, "blocks.0.attention.o.weight", zeros.data(),
                                zeros.size() * sizeof(float));
    const auto choices = choices_of_tokens(&run, 12);
    const Rows rows = rows_of(problem, 8, 0);
    int64_t going[4][4] = {};  // rows from one rank to another
    for (size_t i = 0; i < rows.tokens.size(); ++i)
      for (const int64_t expert : choices[static_cast<size_t>(rows.tokens[i])]) ++going[i / 24][expert / 3];
    run.step();
    const int64_t row = 24 * 4, round = factor > 1 ? 48 : 8;  // 0.6 x 2 x 24 / 4, rounded up
    run.trainer().ranks().on_each([&](train::Rank& rank, int32_t r) {
      int64_t expected = 0;
      for (int32_t to = 0; to < 4; ++to)
        if (to != r)
          expected += (going[r][to] + going[to][r]) * (2 * row + 4) +
                      std::max<int64_t>(0, going[r][to] - round) * (row + 4);
      const comm::Traffic sent = rank.groups().ep->traffic();
      EXPECT_EQ(sent.by_operation[static_cast<size_t>(comm::Operation::kAllToAll)].bytes, expected) << r;
    });
  }
}

/// All rows are sent to two experts of the first rank, in this number of rounds in both layers and both
/// micro-batches.
TEST(ExpertLoad, MetricsTellTheRounds) {
  for (const auto& [factor, rounds] : {std::pair{64.0, 1}, {1.0, 2}, {0.5, 4}, {0.4, 5}}) {
    Layout layout = over(2, 2, factor);
    layout.accumulation = 2;
    LayoutRun run(two_of_twelve(), layout);
    send_all_to_the_first(&run, 12);
    for (const Json& layer : Json::parse(run.step().loads)) EXPECT_EQ(layer.at("rounds"), rounds) << factor;
  }
  for (const Json& layer : Json::parse(run_layout(two_of_twelve(), Layout(), 1).front().loads))
    EXPECT_EQ(layer.at("rounds"), 1);
}

Problem with_capacity(const char* factor) {
  Problem problem = two_of_twelve();
  problem.moe = fmt::format(R"({{"dispatch": "capacity", "capacity_factor": {}, "aux_loss": 0.3}})", factor);
  return problem;
}

/// The capacity applies to an expert and a source, so the rank that has the expert does not matter.
TEST(ExpertLoad, CapacityDropsTheSameRowsWhoeverHasTheExperts) {
  for (const char* precision : {"fp32", "bf16"}) {
    Problem problem = with_capacity("0.5");
    problem.precision = precision;
    Layout one = over(4, 1, 0), two = over(4, 2, 64), four = over(4, 4, 0.3);
    one.sum_group = two.sum_group = 2;
    const StepRecord alone = run_layout(problem, one, 1).front(), same = run_layout(problem, two, 1).front();
    EXPECT_GT(Json::parse(alone.loads).at(0).at("dropped").get<double>(), 0.2);
    EXPECT_EQ(first_difference({alone}, {same}), "");
    const StepRecord rounds = run_layout(problem, four, 1).front();
    EXPECT_EQ(rounds.loss, alone.loss);
    EXPECT_EQ(Json::parse(rounds.loads).at(1).at("dropped"), Json::parse(alone.loads).at(1).at("dropped"));
    EXPECT_NEAR(rounds.grad_norm, alone.grad_norm, 1e-6 * alone.grad_norm);
  }
}

/// Each of two tp ranks has one row of the batch, as one rank has in micro-batches of one row. Each cp rank
/// has half of each row's columns.
TEST(ExpertLoad, CapacityIsThatOfTheRowsOfARank) {
  Problem whole = with_capacity("0.7"), row = whole;
  whole.dropout = row.dropout = 0;
  whole.micro_batch = 2, row.micro_batch = 1;
  Layout tp, ep, one;
  tp.tp = ep.tp = 2, ep.ep = 2, ep.rows_factor = 0.5;
  one.accumulation = 2;
  const StepRecord expected = run_layout(row, one, 1).front();
  for (const Layout& layout : {tp, ep}) {
    const StepRecord divided = run_layout(whole, layout, 1).front();
    EXPECT_NEAR(divided.loss, expected.loss, 1e-6);
    EXPECT_NEAR(divided.grad_norm, expected.grad_norm, 2e-5 * expected.grad_norm);
    for (size_t layer = 0; layer < 2; ++layer)
      EXPECT_EQ(Json::parse(divided.loads).at(layer).at("dropped"),
                Json::parse(expected.loads).at(layer).at("dropped"));
  }
  for (const char* factor : {"0.7", "12"}) {
    const Problem problem = with_capacity(factor);
    Layout cp;
    cp.cp = 2;
    const double dropped =
        Json::parse(run_layout(problem, cp, 1).front().loads).at(0).at("dropped").get<double>();
    EXPECT_EQ(dropped > 0.1, factor[0] == '0') << dropped;
  }
}

}  // namespace expert_load_test
}  // namespace hawser::testing
