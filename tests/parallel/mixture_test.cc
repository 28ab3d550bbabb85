// Mixture test: under every layout, the bits of plain data parallelism (promise L2), one rank within an
// envelope (promise L4), loads that are counted once, and a balance bias that follows the load of the
// complete step.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "engine/config/resolved_config.h"
#include "engine/nn/moe/balance.h"
#include "engine/proof/prove_layout.h"
#include "engine/proof/rerouted_choices.h"
#include "tests/checkpoint/scratch.h"
#include "tests/harness/near_one_rank.h"
#include "tests/harness/same_bits.h"
#include "tests/harness/schedules.h"

namespace hawser::testing {
namespace mixture_test {

using Json = nlohmann::ordered_json;

/// The cases are softmax with both losses; sigmoids in groups with a balance bias and a shared expert; a
/// gate, and a dense layer.
std::vector<Problem> problems() {
  std::vector<Problem> all(3);
  all[0].like_gpt2 = false;
  all[0].experts = R"({"experts": 6, "top_k": 2, "width": 20})";
  all[0].moe = R"({"aux_loss": 0.3, "z_loss": 0.1})";
  all[1].experts = R"({"experts": 8, "top_k": 3, "width": 12, "score": "sigmoid", "scale": 1.5, "groups": 4,
                       "top_groups": 2, "shared_width": 20})";
  all[1].moe = R"({"aux_loss": 0.1, "balance_rate": 0.05})";
  all[2].experts =
      R"({"experts": 5, "top_k": 1, "width": 24, "normalize": false, "layers": [1], "shared_width": 16,
                       "shared_gate": true})";
  all[2].moe = R"({"aux_loss": 0.2})";
  all[2].tied = false;
  return all;
}

TEST(Mixture, EveryStageGivesTheBitsOfDdp) {
  for (const Problem& base : problems())
    for (const char* precision : {"fp32", "bf16", "bf16_pure", "fp16"})
      for (const char* reduce : {"per_step", "per_micro_batch"}) {
        Problem problem = base;
        problem.precision = precision;
        Layout ddp;
        ddp.dp_shard = 3, ddp.accumulation = 2, ddp.reduce = reduce;
        expect_stages_same_bits(problem, ddp, 2);
      }
}

TEST(Mixture, HybridShardsGiveTheBitsOfDdp) {
  for (const Problem& problem : problems()) {
    Layout ddp, hybrid;
    ddp.dp_shard = 4, ddp.sum_group = 2;
    hybrid.dp_replicate = hybrid.dp_shard = 2, hybrid.stage = 3;
    expect_same_bits(problem, ddp, hybrid, 3);
  }
}

/// Shards begin at multiples of 64 elements, so ranks share a bias only if there are more experts than that.
TEST(Mixture, ABiasInShardsMovesAsAWholeOneDoes) {
  Problem problem = problems()[1];
  problem.experts = R"({"experts": 80, "top_k": 3, "width": 4, "score": "sigmoid"})";
  Layout ddp;
  ddp.dp_shard = 2;
  Layout sharded = ddp;
  sharded.stage = 3;
  expect_same_bits(problem, ddp, sharded, 3);
}

/// The bytes that a step sends are those of the plan, for any load.
TEST(Mixture, SendsWhatThePlanSays) {
  for (const Problem& problem : problems())
    for (const auto& [tp, cp, dp, stage] : {std::tuple<int64_t, int64_t, int64_t, int64_t>{2, 1, 1, 0},
                                            {1, 2, 1, 0},
                                            {2, 2, 1, 1},
                                            {1, 1, 3, 3}}) {
      Layout layout;
      layout.tp = tp, layout.cp = cp, layout.dp_shard = dp, layout.stage = stage, layout.accumulation = 2;
      LayoutRun run(problem, layout);
      run.step();
      int64_t planned = 0;
      for (const plan::Instruction& n : run.trainer().ranks().first().plans().train.instructions)
        planned += n.sent_bytes;
      EXPECT_EQ(run.trainer().metrics().last_sent_bytes(), planned) << layout.name();
    }
}

/// A router of zeros sends all rows to the first experts, because ties go to the lower index. The plan's
/// memory is exact to the byte, and idle experts have a gradient of zeros.
TEST(Mixture, PlannedMemoryIsWhatIsUsedWithAllRowsOnFewExperts) {
  for (const int64_t pp : {1, 2})
    for (const bool hot : {false, true}) {
      const Problem problem = problems()[0];
      Layout layout;
      layout.pp = pp, layout.dp_shard = 2, layout.accumulation = 2;
      LayoutRun run(problem, layout);
      const std::vector<float> zeros(6 * 24, 0.0f);
      for (int layer = 0; hot && layer < 2; ++layer)
        run.trainer().tensors().set(train::TensorKind::kWeight,
                                    fmt::format("blocks.{}.moe.router.weight", layer), zeros.data(),
                                    zeros.size() * sizeof(float));
      const StepRecord record = run.step();
      if (hot) {
        EXPECT_EQ(Json::parse(record.loads).at(1).at("idle"), 4);
        const std::vector<float>& gradient = record.gradients.at("blocks.1.moe.experts.up.weight");
        EXPECT_EQ(std::count(gradient.end() - 4 * 20 * 24, gradient.end(), 0.0f), 4 * 20 * 24);
      }
      run.trainer().ranks().on_each([&](train::Rank& rank, int32_t) {
        EXPECT_EQ(rank.executor().slots().high_water(), rank.plans().train.peak_bytes);
        EXPECT_EQ(rank.executor().slots().live_at_peak(), rank.plans().train.at_peak);
      });
    }
}

TEST(Mixture, TreesGiveTheSameBitsForEveryDp) {
  for (const Problem& problem : problems()) {
    Layout one, four;
    one.tree = four.tree = true;
    one.accumulation = 4;
    four.dp_shard = 4;
    expect_same_bits(problem, one, four, 3);
  }
}

TEST(Mixture, EveryScheduleOfAPipelineGivesTheBitsOfOneStage) {
  for (const Problem& base : problems())
    for (const std::string& schedule : all_schedules()) {
      auto [problem, one, two] = TwoStages(base, schedule);
      expect_same_bits(problem, one, two, 3);
      one.dp_shard = two.dp_shard = 2, two.stage = 3;
      expect_same_bits(problem, one, two, 2);
    }
}

TEST(Mixture, RecomputeChangesNoBitAndCountsOnce) {
  for (const Problem& problem : problems())
    for (const int64_t pp : {1, 2}) {
      Layout kept;
      kept.accumulation = 2, kept.pp = pp;
      Layout again = kept;
      again.recompute = R"({"policy": "full"})";
      expect_same_bits(problem, kept, again, 3);
    }
}

TEST(Mixture, TensorAndContextParallelRanksComputeWhatOneRankDoes) {
  for (Problem problem : problems()) {
    problem.optimizer = "sgd", problem.dropout = 0;
    for (const auto& [tp, cp, dp] : {std::tuple<int64_t, int64_t, int64_t>{2, 1, 1},
                                     {4, 1, 1},
                                     {1, 2, 1},
                                     {1, 3, 1},
                                     {2, 2, 1},
                                     {2, 1, 2}}) {
      Layout layout;
      layout.tp = tp, layout.cp = cp, layout.dp_shard = dp, layout.accumulation = 2;
      expect_near_one_rank(problem, layout, 2, 3e-5);
    }
  }
}

TEST(Mixture, EveryStageGivesTheSameBitsBesideTensorAndContextParallelism) {
  for (const Problem& problem : problems())
    for (const auto& [tp, cp] : {std::pair<int64_t, int64_t>{2, 1}, {1, 2}, {2, 2}}) {
      Layout ddp;
      ddp.tp = tp, ddp.cp = cp, ddp.dp_shard = 2, ddp.accumulation = 2;
      for (const int64_t stage : {1, 3}) {
        Layout layout = ddp;
        layout.stage = stage;
        expect_same_bits(problem, ddp, layout, 2);
      }
    }
}

/// tp ranks cannot divide the rows evenly: the last rank has fewer, or none.
TEST(Mixture, RanksWithFewerRowsOrNone) {
  for (Problem problem : problems()) {
    problem.optimizer = "sgd", problem.dropout = 0, problem.heads = problem.kv_heads = 12;
    problem.mlp_width = 36;
    problem.micro_batch = 1, problem.sequence = 5, problem.seed = 3;
    for (const int64_t tp : {3, 4}) {
      Layout layout;
      layout.tp = tp;
      expect_near_one_rank(problem, layout, 2, 3e-5);
    }
  }
}

TEST(Mixture, BiasMovesByTheLoadOfTheWholeStep) {
  const Problem problem = problems()[1];
  Layout layout;
  layout.dp_shard = 2, layout.accumulation = 2;
  LayoutRun run(problem, layout);
  const std::vector<float> zero(8, 0.0f);
  std::vector<float> before(8), after(8);
  const auto bias = [&](std::vector<float>* values) {
    run.trainer().tensors().get(train::TensorKind::kWeight, "blocks.1.moe.router.bias", values->data(), 32);
  };
  bias(&before);
  EXPECT_EQ(before, zero);
  const StepRecord record = run.step();
  bias(&after);
  const Json layer = Json::parse(record.loads).at(1);
  EXPECT_EQ(layer.at("layer"), 1);
  int64_t up = 0, down = 0;
  for (const float value : after) {
    EXPECT_TRUE(value == 0.05f || value == -0.05f || value == 0.0f) << value;
    up += value > 0 ? 1 : 0, down += value < 0 ? 1 : 0;
  }
  EXPECT_GT(up, 0);
  EXPECT_GT(down, 0);
  EXPECT_LT(layer.at("least").get<double>(), 1.0);
  EXPECT_GT(layer.at("most").get<double>(), 1.0);
}

/// The proof compares the plan with a serial replay of all ranks.
TEST(Mixture, IsProved) {
  for (const Problem& problem : problems())
    for (const int64_t stage : {0, 3}) {
      Layout layout;
      layout.dp_shard = 3, layout.stage = stage, layout.accumulation = 2;
      const Json proof =
          Json::parse(train::prove_layout(config::ConfigTree::from_json(layout_config(problem, layout)), 3));
      EXPECT_TRUE(proof.at("equal").get<bool>()) << layout.name() << ": " << proof.at("first_difference");
      const Json& distance = proof.at("distance_to_f64");
      EXPECT_LE(distance.at("ranks").get<double>(), 2 * std::max(distance.at("ascending").get<double>(),
                                                                 distance.at("descending").get<double>()));
    }
}

/// Ranks that divide rows or columns choose the same experts as one rank if scores differ by more than
/// rounding can change.
TEST(Mixture, ChoicesThatAreNotCloseDoNotMove) {
  for (const Problem& problem : problems())
    for (const int64_t tp : {1, 2}) {
      Layout layout;
      layout.tp = tp, layout.cp = 3 - tp;
      const Json proof = Json::parse(
                     train::prove_layout(config::ConfigTree::from_json(layout_config(problem, layout)), 1)),
                 &choices = proof.at("choices_of_experts");
      EXPECT_GT(choices.at("least_margin").get<double>(), 1e-5);
      EXPECT_EQ(choices.at("moved"), 0);
      EXPECT_TRUE(proof.at("equal").get<bool>()) << proof;
    }
}

/// Makes the routers' first two experts score every token alike, except for the last bit of their weights.
void tie_two_experts(LayoutRun* run, const Problem& problem, int64_t experts) {
  train::Tensors& tensors = run->trainer().tensors();
  for (int64_t layer = 0; layer < problem.layers; ++layer) {
    const std::string name = fmt::format("blocks.{}.moe.router.weight", layer);
    std::vector<float> weights(static_cast<size_t>(experts * 24));
    tensors.get(train::TensorKind::kWeight, name, weights.data(), weights.size() * sizeof(float));
    for (size_t c = 0; c < 24; ++c) weights[24 + c] = std::nextafter(weights[c], c % 2 == 0 ? 9.0f : -9.0f);
    tensors.set(train::TensorKind::kWeight, name, weights.data(), weights.size() * sizeof(float));
  }
}

/// If two experts nearly tie, ranks that divide heads choose other experts than one rank. The count that a
/// proof prints reports this, and gradients differ by more than rounding. Without the tie neither happens.
TEST(Mixture, ANearTieThatFlipsIsCounted) {
  Problem problem = problems()[0];
  problem.micro_batch = 8, problem.sequence = 24, problem.dropout = 0;
  const nn::ModelConfig model =
      config::resolve(config::ConfigTree::from_json(layout_config(problem, {}))).model;
  Layout two;
  two.tp = 2;
  const auto tallies = [](LayoutRun& run) { return run.trainer().ranks().first().executor().tallies(); };
  for (const bool tie : {false, true}) {
    LayoutRun one(problem, Layout()), other(problem, two);
    for (LayoutRun* run : {&one, &other})
      if (tie) tie_two_experts(run, problem, model.moe.experts);
    const StepRecord a = one.step(), b = other.step();
    double farthest = 0, largest = 0;
    for (const auto& [name, gradient] : a.gradients)
      for (size_t i = 0; i < gradient.size(); ++i) {
        farthest = std::max(farthest, std::abs(double{gradient[i]} - double{b.gradients.at(name)[i]}));
        largest = std::max(largest, std::abs(double{gradient[i]}));
      }
    const int64_t moved = train::rerouted_choices(model, tallies(other), tallies(one));
    EXPECT_EQ(moved > 0, tie) << moved;
    EXPECT_EQ(farthest > 3e-5 * largest, tie) << farthest << " of " << largest;
  }
}

/// Two layers with 6 experts: one choice of the second layer moved from expert 0 to 5, and two choices of the
/// first layer from 4 to 1 and 2.
TEST(Mixture, ChoicesThatMovedAreCounted) {
  const nn::ModelConfig model =
      config::resolve(config::ConfigTree::from_json(layout_config(problems()[0], {}))).model;
  const int64_t words = nn::tally_words(model.moe);
  std::vector<int64_t> one(static_cast<size_t>(nn::all_tally_words(model)), 7), ranks = one;
  EXPECT_EQ(train::rerouted_choices(model, ranks.data(), one.data()), 0);
  ranks[4] -= 2, ++ranks[1], ++ranks[2];
  --ranks[static_cast<size_t>(words)], ++ranks[static_cast<size_t>(words) + 5];
  ranks[static_cast<size_t>(words) - 1] += 9;  // other sums follow the counts
  EXPECT_EQ(train::rerouted_choices(model, ranks.data(), one.data()), 3);
  EXPECT_EQ(train::rerouted_choices(model, one.data(), ranks.data()), 3);
}

/// Other ranks load what one rank saved. The bias is saved as f32 in every precision.
TEST(Mixture, GoesOnFromACheckpointWithTheSameBits) {
  for (const Problem& base : problems())
    for (const char* precision : {"fp32", "bf16_pure"}) {
      Problem problem = base;
      problem.precision = precision, problem.layers = 4, problem.tied = false;
      const checkpoint::Scratch scratch;
      Layout one, others;
      one.accumulation = others.accumulation = 4;
      others.pp = 2;
      LayoutRun first(problem, one), second(problem, others);
      first.step();
      first.trainer().saves().save(scratch / "saved");
      second.trainer().loads().load(scratch / "saved", false);
      second.skip_to(1);
      EXPECT_EQ(first_difference({first.step()}, {second.step()}), "") << precision;
    }
}

TEST(Mixture, ACheckpointOfOtherExpertsIsRefused) {
  const checkpoint::Scratch scratch;
  Problem problem = problems()[0];
  LayoutRun(problem, Layout()).trainer().saves().save(scratch / "saved");
  problem.moe = R"({"aux_loss": 0.0, "z_loss": 0.5})";  // training settings of experts may change
  LayoutRun(problem, Layout()).trainer().loads().load(scratch / "saved", false);
  problem.experts = R"({"experts": 6, "top_k": 3, "width": 20})";
  LayoutRun other(problem, Layout());
  try {
    other.trainer().loads().load(scratch / "saved", false);
    FAIL() << "loaded";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("/model/moe/top_k"), std::string::npos) << error.what();
  }
}

TEST(Mixture, DiscardMovesNoBias) {
  const Problem problem = problems()[1];
  LayoutRun run(problem, Layout());
  const Rows rows = rows_of(problem, problem.micro_batch, 0);
  run.trainer().push(rows.view());
  run.trainer().forward_backward();
  run.trainer().discard(false);
  std::vector<float> bias(8, 1.0f);
  run.trainer().tensors().get(train::TensorKind::kWeight, "blocks.0.moe.router.bias", bias.data(), 32);
  EXPECT_EQ(bias, std::vector<float>(8, 0.0f));
}

/// Router losses are means over the step: they are equal for one micro-batch or many and for one rank or
/// more, and are separate from the loss.
TEST(Mixture, LossesOfRoutersDoNotDependOnHowRowsAreDivided) {
  Problem problem = problems()[0];
  problem.dropout = 0, problem.micro_batch = 8;
  const StepRecord whole = run_layout(problem, Layout(), 1).front();
  problem.micro_batch = 1;
  Layout divided;
  divided.accumulation = 4, divided.dp_shard = 2;
  const StepRecord parts = run_layout(problem, divided, 1).front();
  const Json a = Json::parse(whole.loads), b = Json::parse(parts.loads);
  ASSERT_EQ(a.size(), 2u);
  for (size_t i = 0; i < a.size(); ++i) {
    for (const char* key : {"most", "least", "idle", "dropped"}) EXPECT_EQ(a[i].at(key), b[i].at(key)) << key;
    for (const char* key : {"balance_loss", "z_loss"})
      EXPECT_NEAR(a[i].at(key).get<double>(), b[i].at(key).get<double>(), 1e-4 * a[i].at(key).get<double>())
          << key;
  }
  EXPECT_NEAR(whole.loss, parts.loss, 1e-6);
  EXPECT_NEAR(whole.grad_norm, parts.grad_norm, 1e-5 * whole.grad_norm);
}

TEST(Mixture, CapacityDropsAndRepeats) {
  Problem problem = problems()[0];
  problem.moe = R"({"dispatch": "capacity", "capacity_factor": 0.5, "aux_loss": 0.3})";
  const std::vector<StepRecord> one = run_layout(problem, Layout(), 2),
                                same = run_layout(problem, Layout(), 2);
  EXPECT_EQ(first_difference(one, same), "");
  EXPECT_GT(Json::parse(one[0].loads).at(0).at("dropped").get<double>(), 0.2);
  problem.moe = R"({"dispatch": "capacity", "capacity_factor": 6, "aux_loss": 0.3})";
  const std::vector<StepRecord> roomy = run_layout(problem, Layout(), 2);
  problem.moe = R"({"aux_loss": 0.3})";
  EXPECT_EQ(first_difference(roomy, run_layout(problem, Layout(), 2)), "");
}

}  // namespace mixture_test
}  // namespace hawser::testing
