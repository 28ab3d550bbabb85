// Tests multi-token prediction (/model/ahead). In every kind of layout, losses and gradients are those of the
// definition; layouts that promise the same bits give them. Depths change neither evaluation nor, if their
// weight is 0, the training of the model's other weights.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/execute/ahead_rows.h"
#include "engine/proof/reference_model.h"
#include "tests/harness/f64_step.h"
#include "tests/harness/layout_run.h"
#include "tests/harness/refusal.h"

namespace hawser {
namespace ahead_test {

using testing::Layout;
using testing::LayoutRun;
using testing::Problem;
using testing::Rows;
using testing::StepRecord;

Problem problem(int64_t ahead, bool like_gpt2 = true) {
  Problem p;
  p.ahead = ahead, p.like_gpt2 = like_gpt2, p.tied = like_gpt2, p.dropout = 0, p.weights_every = 0;
  return p;
}

Layout layout_of(int64_t dp, int64_t cp, int64_t tp, int64_t pp, int64_t stage = 0) {
  Layout l;
  l.dp_shard = dp, l.cp = cp, l.tp = tp, l.pp = pp, l.stage = stage, l.accumulation = pp > 1 ? 4 / dp : 2;
  return l;
}

std::vector<Layout> layouts() {
  std::vector<Layout> all = {layout_of(1, 1, 1, 1),   layout_of(2, 1, 1, 1, 2), layout_of(1, 2, 1, 1),
                             layout_of(1, 1, 2, 1),   layout_of(1, 2, 2, 1),    layout_of(1, 1, 1, 2),
                             layout_of(2, 1, 1, 1, 3)};
  all.push_back(layout_of(1, 1, 2, 1));
  all.back().sequence_parallel = false;
  return all;
}

train::ReferenceBatch reference_batch(const Rows& rows, double weight) {
  train::ReferenceBatch batch{rows.rows, rows.cols, rows.tokens, rows.targets, rows.document_begin};
  batch.ahead_weight = weight;
  return batch;
}

/// Returns the mean loss of the next token if `depth` is 0, or else of that depth: what it adds to the sum of
/// the losses up to the depth before.
double mean_loss(LayoutRun& run, const Rows& rows, int64_t depth) {
  const config::ResolvedConfig& config = run.trainer().config();
  const nn::ParameterTable table(config.model);
  const std::vector<double> weights = testing::flat_weights(run);
  const auto up_to = [&](int64_t depths, double weight) {
    nn::ModelConfig model = config.model;
    model.ahead = depths;
    return train::ReferenceModel<double>(model, table, weights, weights, config.seed)
        .loss(reference_batch(rows, weight * static_cast<double>(depths)));
  };
  if (depth == 0) return up_to(0, 0);
  return up_to(depth, 1) - up_to(depth - 1, 1);
}

std::vector<double> ahead_losses(LayoutRun& run) {
  const auto metrics = nlohmann::json::parse(run.trainer().metrics().json());
  return metrics.at("ahead_losses").get<std::vector<double>>();
}

TEST(AheadRun, LossesAndGradientsAreThoseOfTheDefinition) {
  for (const int64_t ahead : {1, 3})
    for (const bool like_gpt2 : {true, false})
      for (const bool documents : {false, true})
        for (const Layout& layout : layouts()) {
          Problem p = problem(ahead, like_gpt2);
          p.documents = documents;
          SCOPED_TRACE(std::to_string(ahead) + (like_gpt2 ? " gpt2 " : " gemma ") +
                       (documents ? "documents " : "") + layout.name());
          LayoutRun run(p, layout);
          const Rows rows = testing::rows_of(p, p.micro_batch * layout.accumulation * layout.dp(), 0);
          std::vector<double> losses;
          for (int64_t depth = 0; depth <= ahead; ++depth) losses.push_back(mean_loss(run, rows, depth));
          const StepRecord record = testing::expect_f64_gradients(run, reference_batch(rows, p.ahead_weight));
          EXPECT_NEAR(record.loss, losses[0], 1e-5 * losses[0]);
          const std::vector<double> found = ahead_losses(run);
          ASSERT_EQ(std::ssize(found), ahead);
          for (size_t d = 0; d < found.size(); ++d)
            EXPECT_NEAR(found[d], losses[d + 1], 1e-5 * losses[d + 1]);
        }
}

TEST(AheadRun, LayoutsGiveTheSameBits) {
  for (const bool tied : {true, false}) {
    Problem p = problem(2);
    p.tied = tied, p.dropout = 0.1, p.weights_every = 3, p.documents = true;
    const Layout plain = layout_of(2, 1, 1, 1);
    const std::vector<StepRecord> expected = testing::run_layout(p, plain, 3);
    for (const int64_t stage : {1, 2, 3})
      EXPECT_EQ(first_difference(expected, testing::run_layout(p, layout_of(2, 1, 1, 1, stage), 3)), "");
    EXPECT_EQ(first_difference(expected, testing::run_layout(p, layout_of(2, 1, 1, 2), 3)), "");
    Layout recomputed = plain;
    recomputed.recompute = R"({"policy": "full"})";
    EXPECT_EQ(first_difference(expected, testing::run_layout(p, recomputed, 3)), "");
    Layout in_tiles = plain;
    in_tiles.recompute = R"({"rows": 5})";
    EXPECT_EQ(first_difference(expected, testing::run_layout(p, in_tiles, 3)), "");
    for (const auto& [cp, tp] : {std::pair<int64_t, int64_t>{1, 2}, {2, 1}, {2, 2}}) {
      const auto divided = testing::run_layout(p, layout_of(2, cp, tp, 1), 3);
      EXPECT_EQ(first_difference(divided, testing::run_layout(p, layout_of(2, cp, tp, 1, 3), 3)), "");
      EXPECT_EQ(first_difference(divided, testing::run_layout(p, layout_of(2, cp, tp, 2), 3)), "");
    }
  }
}

/// Compares values, because the sum of a gradient -0 and the gradient 0 of a depth is 0.
TEST(AheadRun, AWeightOfZeroTrainsTheModelWithoutDepths) {
  for (const bool tied : {true, false})
    for (const int64_t tp : {1, 2}) {
      Problem with = problem(2), without = problem(0);
      with.ahead_weight = 0, with.tied = without.tied = tied;
      const Layout layout = layout_of(1, 1, tp, 1);
      const auto a = testing::run_layout(with, layout, 2), b = testing::run_layout(without, layout, 2);
      for (size_t step = 0; step < a.size(); ++step) {
        EXPECT_EQ(a[step].loss, b[step].loss);
        EXPECT_EQ(a[step].grad_norm, b[step].grad_norm);
        for (const auto& [name, values] : b[step].gradients)
          EXPECT_EQ(a[step].gradients.at(name), values) << name;
        for (const auto& [name, values] : b[step].weights)
          EXPECT_EQ(a[step].weights.at(name), values) << name;
      }
    }
}

TEST(AheadRun, EvaluationIsThatOfTheModelWithoutDepths) {
  for (const Layout& layout : layouts()) {
    LayoutRun with(problem(2), layout), without(problem(0), layout);
    const Rows rows = testing::rows_of(problem(0), 5, 0);
    const train::BatchView batch = rows.view();
    EXPECT_EQ(with.trainer().inference().eval(&batch, 0).loss,
              without.trainer().inference().eval(&batch, 0).loss)
        << layout.name();
    std::vector<float> a(rows.tokens.size() * 53), b(a.size());
    with.trainer().inference().forward(batch, a.data(), a.size() * sizeof(float));
    without.trainer().inference().forward(batch, b.data(), b.size() * sizeof(float));
    EXPECT_EQ(a, b) << layout.name();
  }
}

TEST(AheadRun, RefusesGradientsOfTheHostProgram) {
  const Problem p = problem(1);
  LayoutRun run(p, layout_of(1, 1, 1, 1));
  const Rows rows = testing::rows_of(p, 4, 0);
  const std::vector<float> gradients(rows.tokens.size(), 0.0f);
  testing::expect_error(Code::kFailedPrecondition, {"/model/ahead 1", "set it to 0"},
                        [&] { run.trainer().backward_with(rows.view(), gradients.data()); });
}

TEST(AheadRows, EndWithTheRowAndWithTheDocument) {
  std::vector<int32_t> tokens = {5, 6, 7, 8, 9, 4}, targets = {6, -100, 8, 9, 4, 3},
                       begins = {0, 0, 0, 3, 3, 3};
  std::vector<int32_t> tokens_ahead(12), targets_ahead(12);
  std::vector<float> weights = {1, 2, 3, 4, 5, 6}, weights_ahead(12);
  train::MicroBatch rows;
  rows.batch = 1, rows.seq = 6;
  rows.tokens = tokens.data(), rows.targets = targets.data(), rows.kv_begin = begins.data();
  rows.weights = weights.data();
  rows.ahead = {2, tokens_ahead.data(), targets_ahead.data(), weights_ahead.data()};
  train::look_ahead(rows);
  EXPECT_EQ(tokens_ahead, (std::vector<int32_t>{6, 7, -1, 9, 4, -1, 7, -1, -1, 4, -1, -1}));
  EXPECT_EQ(targets_ahead, (std::vector<int32_t>{-100, 8, -100, 4, 3, -100, 8, -100, -100, 3, -100, -100}));
  EXPECT_EQ(weights_ahead, (std::vector<float>{2, 3, 0, 5, 6, 0, 3, 0, 0, 6, 0, 0}));
  const train::BatchView batch{1, 6, tokens.data(), targets.data(), begins.data()};
  EXPECT_EQ(train::count_ahead(batch, 0, 1, 1), 3);
  EXPECT_EQ(train::count_ahead(batch, 0, 1, 2), 2);
}

}  // namespace ahead_test
}  // namespace hawser
