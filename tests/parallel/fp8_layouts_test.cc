// Tests layouts under precision fp8: if ranks, row tiles or experts have parts of an operand, delayed scales
// follow from the complete operand, so layouts that promise the same bits keep them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/assembly/assemble.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/nn/model.h"
#include "engine/parallel/expert_parallel.h"
#include "tests/harness/answers.h"
#include "tests/harness/expert_layouts.h"
#include "tests/harness/kernel_levels.h"
#include "tests/harness/layout_run.h"
#include "tests/harness/op_cases.h"
#include "tests/harness/same_bits.h"
#include "tests/harness/small_config.h"

namespace hawser::testing {
namespace fp8_layouts_test {

using Json = nlohmann::ordered_json;

/// With a margin of 12, most inputs and weights are subnormal, so every scale changes bits.
Problem problem_of(bool like_gpt2, bool experts = false, int64_t width = 24) {
  Problem p;
  p.width = width;
  p.precision = "fp8", p.fp8 = R"({"history": 2, "margin": 12})", p.like_gpt2 = like_gpt2;
  if (experts) p.experts = R"({"experts": 8, "top_k": 2, "width": 12, "layers": [1], "shared_width": 20})";
  return p;
}

Layout of_model(int64_t tp, int64_t cp, int64_t accumulation = 2) {
  Layout l;
  l.tp = tp, l.cp = cp, l.accumulation = accumulation;
  return l;
}

Json history_in(const std::string& checkpoint) {
  return Json::parse(checkpoint::inspect(checkpoint)).at("state").at("fp8_history");
}

/// Returns the history after a step, and expects that of every weight to be its largest number.
Json history_after_a_step(const Problem& problem, const Layout& layout) {
  const ScratchFolder folder;
  LayoutRun run(problem, layout);
  std::map<std::string, double> largest;
  for (const nn::Parameter& p : run.trainer().ranks().table().all()) {
    std::vector<float> values(static_cast<size_t>(p.size));
    run.trainer().tensors().get(train::TensorKind::kWeight, p.name, values.data(), values.size() * 4);
    for (const float v : values)
      largest[p.name] = std::max(largest[p.name], std::abs(rounded(static_cast<double>(v), DType::kBf16)));
  }
  run.step();
  run.trainer().saves().save(folder.file("1"));
  Json history = history_in(folder.file("1"));
  size_t weights = 0;
  for (const auto& [name, maxima] : history.items()) {
    const size_t colon = name.find(':');
    if (name.substr(colon) != ":weight") continue;
    EXPECT_EQ(maxima.at(0).at(1).get<double>(), largest.at(name.substr(0, colon))) << name << layout.name();
    ++weights;
  }
  EXPECT_GE(weights, 10u) << layout.name();
  return history;
}

/// The history of a layout has the operands of one rank. The first input follows from the embedding, so it
/// has the same bits. Later inputs follow from sums in another order.
void expect_maxima_of_one_rank(const Problem& problem, const Layout& layout) {
  Layout serial;
  serial.accumulation = layout.accumulation * layout.dp();
  const Json one = history_after_a_step(problem, serial), all = history_after_a_step(problem, layout);
  ASSERT_EQ(one.size(), all.size()) << layout.name();
  EXPECT_EQ(one.at("blocks.0.attention.q.weight:input"), all.at("blocks.0.attention.q.weight:input"));
  for (const auto& [name, maxima] : one.items()) {
    const double want = maxima.at(0).at(1), got = all.at(name).at(0).at(1);
    EXPECT_NEAR(got, want, 0.2 * want) << name << " " << layout.name();
  }
}

TEST(Fp8Layouts, RanksThatHavePartsOfOperandsAgreeOnTheMaximaOfOneRank) {
  for (const bool like_gpt2 : {true, false})
    for (const auto& [tp, cp] : {std::pair<int64_t, int64_t>{2, 1}, {4, 1}, {1, 2}, {2, 2}}) {
      Problem problem = problem_of(like_gpt2);
      problem.fp8 = "{}", problem.dropout = 0;
      problem.kv_heads = 4;  // ranks that share a head have addends of its gradient
      expect_maxima_of_one_rank(problem, of_model(tp, cp));
    }
}

/// Experts compute each row as one rank does, so all maxima have its bits. The rows of wide experts are kept
/// as codes, but noted before they are encoded.
TEST(Fp8Layouts, RanksThatDivideExpertsAgreeOnTheBitsOfOneRank) {
  for (const int64_t width : {24, 136})
    for (const int64_t ep : {2, 4}) {
      Problem problem = problem_of(false, true, width);
      problem.fp8 = "{}";
      Layout serial;
      serial.accumulation = 4;
      const Json one = history_after_a_step(problem, serial);
      EXPECT_EQ(one, history_after_a_step(problem, over(4, ep))) << ep;
      for (const char* const part : {"gate", "up", "down"})
        EXPECT_TRUE(one.contains(std::string("blocks.1.moe.experts.") + part + ".weight:gradient")) << part;
    }
}

TEST(Fp8Layouts, StagesOfZeroKeepTheBitsOfTensorAndContextParallelRanks) {
  for (const auto& [tp, cp] : {std::pair<int64_t, int64_t>{2, 1}, {1, 2}, {2, 2}})
    for (const int64_t stage : {1, 3}) {
      const Problem problem = problem_of(tp == cp);
      Layout ddp = of_model(tp, cp), layout;
      ddp.dp_shard = 2, ddp.sum_group = 2 * cp;
      layout = ddp;
      layout.stage = stage, layout.sum_group = 0;
      if (stage == 3) layout.recompute = R"({"policy": "full", "rows": 5})";
      expect_same_bits(problem, ddp, layout, 3);
    }
}

/// A split backward keeps inputs of wide branches as codes between its passes.
TEST(Fp8Layouts, StagesOfAPipelineKeepTheBits) {
  for (const char* schedule : {"1f1b", "zb_h1"})
    for (const bool experts : {false, true}) {
      const Problem problem = problem_of(experts, experts, experts ? 24 : 136);
      Layout one = experts ? over(2, 2) : of_model(2, 1), two;
      one.accumulation = 3;
      two = one;
      two.pp = 2, two.schedule = schedule;
      expect_same_bits(problem, one, two, 3);
    }
}

/// Rows that wide experts receive are kept as codes; a rank with all experts receives none.
TEST(Fp8Layouts, DividedExpertsKeepTheBits) {
  for (const int64_t width : {24, 136}) {
    const Problem problem = problem_of(width == 24, true, width);
    Layout one = over(4, 1), divided = over(4, 2, 64);
    one.sum_group = divided.sum_group = 2;
    expect_same_bits(problem, one, divided, 3);
    Layout stage = divided;
    stage.sum_group = 0, stage.stage = 3, stage.recompute = R"({"policy": "full"})";
    Layout ddp = over(4, 2, 64);
    expect_same_bits(problem, ddp, stage, 3);
  }
}

/// Returns the costs of a model of width 256, whose products keep codes or not.
nn::ModelCosts costs_of(bool experts, bool keeps_codes, const nn::ExpertExchange& exchange) {
  const Problem problem = problem_of(true, experts, 256);
  const config::ResolvedConfig config =
      train::assemble(config::ConfigTree::from_json(layout_config(problem, Layout()))).config;
  const nn::Model model(config.model, config.init.scale_residual, {}, 1, {}, experts ? 2 : 1);
  const nn::WeightTypes types{
      DType::kBf16, DType::kF32, {keeps_codes ? nn::Fp8Scaling::kHistory : nn::Fp8Scaling::kOperand}};
  return nn::measure_costs(model, *kernel_tables().back(), 1, types, 2, 64, true, false, nn::kAlone,
                           nn::kAllColumns, nullptr, {true}, exchange);
}

/// A number has 129 / 128 bytes instead of 2.
TEST(Fp8Layouts, InputsThatOnlyProductsReadAreKeptAsCodes) {
  constexpr int64_t kRows = 128, kSmaller = 2 * 256 - 2 * 129;
  const auto inputs = [](bool codes) {
    return costs_of(false, codes, nn::kAllExperts).block_backward_input.front().made;
  };
  EXPECT_EQ(inputs(false) - inputs(true), 2 * kRows * kSmaller);
  const auto received = [](bool codes) {
    parallel::CountingWire wire(2);
    const auto exchange = parallel::make_expert_exchange(&wire, {kRows, true, kRows, 2});
    return costs_of(true, codes, *exchange).block_forward.back().saved;
  };
  EXPECT_EQ(received(false) - received(true), 2 * kRows * kSmaller);
}

/// One rank has all experts, so that `current` needs no exchange.
TEST(Fp8Layouts, RecomputeKeepsTheBitsOfExperts) {
  for (const char* fp8 : {R"({"history": 2, "margin": 12})", R"({"recipe": "current", "margin": 12})"}) {
    Problem problem = problem_of(false, true);
    problem.fp8 = fp8;
    Layout layout, again;
    layout.accumulation = again.accumulation = 2;
    again.recompute = R"({"policy": "full"})";
    expect_same_bits(problem, layout, again, 3);
  }
}

TEST(Fp8Layouts, AnEvaluationBetweenTwoStepsChangesNoBit) {
  for (const Layout& layout : {of_model(2, 1), of_model(1, 2), over(2, 2)}) {
    const Problem problem = problem_of(false, layout.ep > 1);
    LayoutRun plain(problem, layout), other(problem, layout);
    for (int i = 0; i < 3; ++i) {
      (void)ask(other.trainer(), problem, 7);
      EXPECT_EQ(first_difference({plain.step()}, {other.step()}), "") << layout.name();
    }
  }
}

/// A history belongs to no layout: a run of another one takes it over whole.
TEST(Fp8Layouts, AnotherLayoutResumesWithTheHistory) {
  const ScratchFolder folder;
  const Problem problem = problem_of(false, true);
  LayoutRun first(problem, over(4, 2));
  for (int i = 0; i < 3; ++i) first.step();
  first.trainer().saves().save(folder.file("ep"));
  Layout divided = of_model(2, 1);
  divided.dp_shard = 2, divided.stage = 3;
  Layout serial;
  serial.accumulation = 4;
  for (const Layout& layout : {serial, divided}) {
    const std::string again = folder.file(layout.tp == 1 ? "one" : "tp");
    LayoutRun run(problem, layout);
    run.trainer().loads().load(folder.file("ep"), false);
    run.trainer().saves().save(again);
    EXPECT_EQ(history_in(again), history_in(folder.file("ep"))) << layout.name();
  }
}

/// Every row chooses the first two of eight experts, so one of two ranks has no rows.
TEST(Fp8Layouts, ExpertsWithoutRowsHaveTheScalesOfTheOthers) {
  const Problem problem = problem_of(false, true);
  Layout one = over(4, 1), divided = over(4, 2, 64);
  one.sum_group = divided.sum_group = 2;
  LayoutRun whole(problem, one), parts(problem, divided);
  for (int i = 0; i < 3; ++i) {
    for (LayoutRun* const run : {&whole, &parts}) {
      const std::vector<float> zeros(8 * 24, 0.0f);
      run->trainer().tensors().set(train::TensorKind::kWeight, "blocks.1.moe.router.weight", zeros.data(),
                                   zeros.size() * sizeof(float));
    }
    const StepRecord expected = whole.step();
    EXPECT_GT(expected.grad_norm, 0);
    EXPECT_EQ(first_difference({expected}, {parts.step()}), "") << i;
  }
}

}  // namespace fp8_layouts_test
}  // namespace hawser::testing
