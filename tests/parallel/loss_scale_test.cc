// Loss scale test: the scale is exact wherever it is applied, and under precision fp16 a step that overflows
// on any rank, in any micro-batch or by a router's loss alone is dropped on all ranks. No case overflows only
// in the gradient of a weight, because such a gradient is an f32 sum of products of fp16 numbers, which stays
// far below the largest f32.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "engine/execute/batch_sources.h"
#include "engine/optim/optimizer.h"
#include "tests/harness/equal_tensors.h"
#include "tests/harness/layout_run.h"
#include "tests/harness/small_config.h"

namespace hawser::testing {
namespace loss_scale_test {

using Json = nlohmann::ordered_json;
using train::Outcome;
using train::Trainer;

Problem fp16_problem() {
  Problem p;
  p.precision = "fp16", p.dropout = 0;
  return p;
}

double scale_in_metrics(const Trainer& trainer) {
  return Json::parse(trainer.metrics().json()).at("loss_scale").get<double>();
}

/// A trainer on rows of which one can get a loss weight that overflows a half, but not an f32.
class Steps {
 public:
  Steps(const Problem& problem, const Layout& layout, const std::string& loss_scale, int64_t max_skips = 10)
      : problem_(problem), rows_(problem.micro_batch * layout.accumulation * layout.dp()) {
    Json json = Json::parse(layout_config(problem, layout));
    json["loss_scale"] = Json::parse(loss_scale);
    json["guard"]["max_consecutive_skips"] = max_skips;
    trainer_ = Trainer::create(
        config::ConfigTree::from_json(json.dump()), false, &cancel_,
        layout.world() > 1 ? comm::make_local(static_cast<int32_t>(layout.world())) : nullptr);
  }
  Trainer* operator->() { return trainer_.get(); }
  Trainer& operator*() { return *trainer_; }
  int64_t rows() const { return rows_; }

  /// Pushes the next batch, in which row `heavy` overflows; -1: none does.
  void push(int64_t heavy = -1) {
    Rows rows = rows_of(problem_, rows_, step_++);
    rows.weights.assign(rows.tokens.size(), 1.0f);
    for (int64_t row = 0; row < rows_; ++row) rows.targets[static_cast<size_t>(row * rows.cols)] = 5;
    if (heavy >= 0) {
      const auto at = static_cast<size_t>(heavy * rows.cols + 2);
      rows.targets[at] = 7, rows.weights[at] = 1e30f;
    }
    trainer_->push(rows.view());
  }
  train::StepResult step(int64_t heavy = -1) {
    push(heavy);
    return trainer_->train_step();
  }

 private:
  Problem problem_;
  int64_t rows_;
  int64_t step_ = 0;
  std::atomic<bool> cancel_{false};
  std::unique_ptr<Trainer> trainer_;
};

/// All weights and moments as bytes.
std::string state_of(const Trainer& trainer) {
  std::string state;
  for (const Json& t : Json::parse(trainer.tensors().json()))
    for (const train::TensorKind kind :
         {train::TensorKind::kWeight, train::TensorKind::kMoment1, train::TensorKind::kMoment2}) {
      const nn::Parameter& p = trainer.ranks().table().at(t.at("name").get<std::string>());
      if (!trainer.tensors().keeps(kind, p)) continue;
      std::vector<float> values(t.at("count").get<size_t>());
      trainer.tensors().get(kind, t.at("name").get<std::string>(), values.data(), values.size() * 4);
      state.append(reinterpret_cast<const char*>(values.data()), values.size() * 4);
    }
  return state;
}

/// The layouts that a step crosses in different ways.
std::vector<Layout> layouts() {
  std::vector<Layout> all(7);
  all[0].accumulation = 3;
  all[1].dp_shard = 3, all[1].stage = 1, all[1].accumulation = 2;
  all[2].dp_shard = 2, all[2].stage = 2, all[2].reduce = "per_micro_batch", all[2].accumulation = 2;
  all[3].dp_shard = 3, all[3].stage = 3;
  all[4].pp = 2, all[4].schedule = "zb_h1", all[4].accumulation = 3;
  all[5].tp = 2, all[5].dp_shard = 2;
  all[6].cp = 2, all[6].accumulation = 2;
  return all;
}

/// Problems whose gradients begin in every way: token losses, losses of routers, preferences and scores.
std::vector<Problem> problems(const std::string& precision) {
  std::vector<Problem> all(4);
  for (Problem& p : all) p.precision = precision, p.dropout = 0, p.optimizer = "sgd";
  all[1].experts = R"({"experts": 6, "top_k": 2, "width": 20})";
  all[1].moe = R"({"aux_loss": 0.3, "z_loss": 0.1})";
  all[2].objective = R"({"kind": "dpo"})";
  all[3].objective = R"({"kind": "reward"})";
  return all;
}

/// A step of fp32 numbers at a loss scale, which a config gives only to fp16.
struct ScaledStep {
  std::vector<std::vector<float>> gradients;  ///< of each rank, as stored
  double grad_norm = 0, loss = 0;
  std::string state;
};
ScaledStep step_at(const Problem& problem, const Layout& layout, double scale) {
  LayoutRun layout_run(problem, layout);
  const Trainer& trainer = layout_run.trainer();
  const config::ResolvedConfig& config = trainer.config();
  const Rows rows = rows_of(problem, problem.micro_batch * layout.accumulation * layout.dp(), 0);
  std::vector<train::Run> runs(static_cast<size_t>(layout.world()));
  ScaledStep step;
  step.gradients.resize(runs.size());
  trainer.ranks().on_each([&](train::Rank& rank, int32_t i) {
    train::Run& run = runs[static_cast<size_t>(i)];
    run.batch = config.batch.micro_batch, run.seq = config.batch.sequence;
    run.training = true, run.step_rows = rows.rows, run.mean_loss = problem.objective.empty(),
    run.loss_scale = scale;
    run.weights = !problem.objective.empty();
    const train::BatchView view = rows.view();
    train::BatchViewSource source(view, rank.first_row(rows.rows), 0);
    run.source = &source;
    const plan::Plan& plan = rank.plans().train;
    rank.executor().run(plan, 0, plan.commit, &run);
    for (const nn::Parameter& p : trainer.ranks().table().all()) {
      const parallel::GroupLayout& group = rank.layout().group(p.group);
      if (!p.trainable || !group.owns_state()) continue;
      for (const mesh::ElementRun& part : rank.layout().state_of(p, rank.number())) {
        std::vector<float> values(static_cast<size_t>(part.size()));
        train::read_values(rank.link(), values.data(), rank.executor().gradients(plan, p.group).from(part.at),
                           part.size());
        std::vector<float>& all = step.gradients[static_cast<size_t>(i)];
        all.insert(all.end(), values.begin(), values.end());
      }
    }
    rank.executor().set_scalars(optim::step_scalars(config.optimizer, 0.1, 0.5 / scale, 1));
    rank.executor().run(plan, plan.commit, plan.instructions.size(), &run);
  });
  step.grad_norm = runs.front().grad_norm, step.loss = runs.front().loss_sum;
  step.state = state_of(trainer);
  return step;
}

/// All of it is exact: what begins gradients, their norm, and the update.
TEST(LossScale, ChangesNoBitOfNumbersThatDoNotOverflow) {
  for (const Problem& problem : problems("fp32"))
    for (const Layout& layout : layouts()) {
      const ScaledStep one = step_at(problem, layout, 1);
      for (const double scale : {2.0, 256.0, 65536.0}) {
        const ScaledStep other = step_at(problem, layout, scale);
        SCOPED_TRACE(layout.name() + " " + problem.moe + problem.objective);
        EXPECT_EQ(one.grad_norm, other.grad_norm) << scale;
        EXPECT_EQ(one.loss, other.loss) << scale;
        EXPECT_TRUE(one.state == other.state) << scale;
        for (size_t rank = 0; rank < one.gradients.size(); ++rank) {
          ASSERT_EQ(one.gradients[rank].size(), other.gradients[rank].size());
          for (size_t i = 0; i < one.gradients[rank].size(); ++i)
            ASSERT_EQ(one.gradients[rank][i] * static_cast<float>(scale), other.gradients[rank][i]) << i;
        }
      }
    }
}

/// Returns the length of the difference of all tensors, relative to the length of the first ones.
double distance(const std::map<std::string, std::vector<float>>& a,
                const std::map<std::string, std::vector<float>>& b) {
  double difference = 0, length = 0;
  for (const auto& [name, values] : a)
    for (size_t i = 0; i < values.size(); ++i) {
      const double x = values[i], y = b.at(name)[i];
      difference += (x - y) * (x - y), length += x * x;
    }
  return std::sqrt(difference / length);
}

/// Only gradients that are subnormal halves at one of the scales differ, by less than their last digit.
TEST(LossScale, HardlyChangesARunOfHalves) {
  for (const Problem& problem : problems("fp16"))
    for (const Layout& layout : layouts()) {
      Problem other = problem;
      other.loss_scale = 16 * problem.loss_scale;
      const std::vector<StepRecord> a = run_layout(problem, layout, 3), b = run_layout(other, layout, 3);
      for (size_t i = 0; i < a.size(); ++i) {
        SCOPED_TRACE(layout.name() + " " + problem.moe + problem.objective);
        EXPECT_NEAR(a[i].loss, b[i].loss, 1e-5 * std::abs(a[i].loss));
        EXPECT_NEAR(a[i].grad_norm, b[i].grad_norm, 1e-3 * a[i].grad_norm);
        EXPECT_LT(distance(a[i].gradients, b[i].gradients), 2e-3);
        EXPECT_LT(distance(a[i].weights, b[i].weights), 1e-5);
      }
    }
}

TEST(LossScale, AStepThatOverflowsOnOneRankOrInOneMicroBatchIsDroppedOnAll) {
  for (const Layout& layout : layouts()) {
    Steps run(fp16_problem(), layout, R"({"initial": 256, "patience": 1})");
    EXPECT_EQ(run.step().outcome, Outcome::kAccepted) << layout.name();
    const std::string before = state_of(*run);
    double scale = 256;
    for (int64_t heavy = 0; heavy < run.rows(); ++heavy) {
      const train::StepResult result = run.step(heavy);
      EXPECT_EQ(result.outcome, Outcome::kSkippedOverflow) << layout.name() << " row " << heavy;
      EXPECT_EQ(result.loss_scale, scale);
      EXPECT_TRUE(std::isfinite(result.loss));
      scale = std::max(1.0, scale / 2);
    }
    EXPECT_TRUE(state_of(*run) == before) << layout.name();
    EXPECT_EQ(run.step().outcome, Outcome::kAccepted) << layout.name();
    EXPECT_EQ(run->metrics().json().find("\"loss_scale\":null"), std::string::npos);
    EXPECT_EQ(scale_in_metrics(*run), scale);
    EXPECT_FALSE(state_of(*run) == before);
  }
}

/// The losses of routers are scaled, too, so they can overflow where the loss of tokens does not.
TEST(LossScale, ARoutersLossThatOverflowsDropsTheStep) {
  Problem p = fp16_problem();
  p.experts = R"({"experts": 6, "top_k": 2, "width": 20})";
  for (const auto& [z_loss, outcome] :
       {std::pair{0.0, Outcome::kAccepted}, {1000.0, Outcome::kSkippedOverflow}}) {
    p.moe = Json{{"aux_loss", 0}, {"z_loss", z_loss}}.dump();
    Layout layout;
    layout.dp_shard = 2, layout.stage = 2;
    Steps run(p, layout, R"({"initial": 1024})");
    EXPECT_EQ(run.step().outcome, outcome) << z_loss;
  }
}

TEST(LossScale, AnOverflowCanOnlyBeDiscardedWhichLowersTheScale) {
  Steps run(fp16_problem(), Layout(), R"({"initial": 256, "patience": 2})");
  run.push(1);
  const train::StepResult pending = run->forward_backward();
  EXPECT_EQ(pending.outcome, Outcome::kPending);
  EXPECT_FALSE(std::isfinite(pending.grad_norm));
  const std::string why = refused(Code::kFailedPrecondition, [&] { run->commit(); });
  EXPECT_NE(why.find("loss scale 256"), std::string::npos) << why;
  EXPECT_EQ(run->discard(false).outcome, Outcome::kDiscarded);
  run.push(1);
  run->forward_backward();
  run->discard(true);  // the same rows come again, at half the scale
  run.push();
  EXPECT_EQ(run->forward_backward().loss_scale, 128);
  run->discard(false);  // finite: the scale stays
  run.push();
  EXPECT_EQ(run->forward_backward().loss_scale, 128);
  EXPECT_EQ(run->commit().outcome, Outcome::kAccepted);
}

TEST(LossScale, OnlyOverflowsAtTheMinimumCountAsSkipsInARow) {
  Steps run(fp16_problem(), Layout(), R"({"initial": 64, "patience": 1, "minimum": 8})", 3);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(run.step(0).outcome, Outcome::kSkippedOverflow);  // 64, 32, 16
  for (int i = 0; i < 2; ++i) EXPECT_EQ(run.step(0).loss_scale, 8);
  refused(Code::kNumeric, [&] { run.step(0); });
  Steps fixed(fp16_problem(), Layout(), R"({"fixed": 64})", 2);
  EXPECT_EQ(fixed.step(0).outcome, Outcome::kSkippedOverflow);
  refused(Code::kNumeric, [&] { fixed.step(0); });
}

TEST(LossScale, GrowsAndShrinksExactlyAcrossACheckpoint) {
  const ScratchFolder folder;
  constexpr int kSteps = 9;
  const int64_t heavy[kSteps] = {-1, -1, 0, -1, -1, -1, 1, 1, -1};
  const double scales[kSteps] = {64, 64, 128, 128, 128, 256, 256, 256, 64};
  const char* const section = R"({"initial": 64, "growth_every": 2, "patience": 2, "backoff": 4})";
  Layout layout;
  layout.dp_shard = 2, layout.stage = 2;
  Steps whole(fp16_problem(), layout, section);
  for (int i = 0; i < kSteps; ++i) {
    whole->saves().save(folder.file(std::to_string(i)));
    EXPECT_EQ(whole.step(heavy[i]).loss_scale, scales[i]) << i;
  }
  for (int from = 0; from < kSteps; ++from) {
    Steps resumed(fp16_problem(), layout, section);
    for (int i = 0; i < from; ++i) resumed.push(), resumed->forward_backward(), resumed->discard(true);
    resumed->loads().load(folder.file(std::to_string(from)), false);
    for (int i = from; i < kSteps; ++i) EXPECT_EQ(resumed.step(heavy[i]).loss_scale, scales[i]) << from << i;
    EXPECT_TRUE(state_of(*resumed) == state_of(*whole)) << from;
  }
}

/// A run may go on in another precision with f32 masters; a loss scale then begins anew.
TEST(LossScale, BeginsAnewAfterACheckpointOfAnotherPrecision) {
  const ScratchFolder folder;
  Problem bf16 = fp16_problem();
  bf16.precision = "bf16";
  LayoutRun other(bf16, Layout());
  other.step();
  other.trainer().saves().save(folder.file("bf16"));
  Steps run(fp16_problem(), Layout(), R"({"initial": 32})");
  run->loads().load(folder.file("bf16"), false);
  EXPECT_EQ(run.step().loss_scale, 32);
  run->saves().save(folder.file("fp16"));
  other.trainer().loads().load(folder.file("fp16"), false);
  EXPECT_EQ(other.trainer().metrics().json().find("loss_scale"), std::string::npos);
}

TEST(LossScale, GradientsHaveNoView) {
  Steps run(fp16_problem(), Layout(), R"({"initial": 256})");
  run.push();
  run->forward_backward();
  const std::string why = refused(Code::kUnimplemented, [&] {
    (void)run->tensors().location(train::TensorKind::kGradient, "embedding.tokens.weight");
  });
  EXPECT_NE(why.find("256"), std::string::npos) << why;
  EXPECT_NE(run->tensors().location(train::TensorKind::kWeight, "embedding.tokens.weight").data, nullptr);
}

}  // namespace loss_scale_test
}  // namespace hawser::testing
