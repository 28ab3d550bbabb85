// Tests training with a teacher whose rows the host program pushes: loss and gradients by their definition in
// every kind of layout and against PyTorch, the same bits where layouts promise them, and two limiting
// cases: a teacher equal to the student, and a weight of 0.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/execute/step_values.h"
#include "engine/proof/reference_model.h"
#include "kernels/include/levels.h"
#include "tests/harness/f64_step.h"
#include "tests/harness/layout_run.h"
#include "tests/harness/test_stream.h"

namespace hawser {
namespace teacher_test {

using testing::Layout;
using testing::LayoutRun;
using testing::Problem;
using testing::Rows;
using testing::StepRecord;

constexpr const char* kMixed = R"({"top": 5, "weight": 0.6, "temperature": 2})";

Problem problem(const std::string& teacher, bool like_gpt2 = true) {
  Problem p;
  p.teacher = teacher, p.like_gpt2 = like_gpt2, p.dropout = 0, p.weights_every = 0;
  return p;
}

train::ReferenceBatch reference_batch(const Rows& rows, const optim::TeacherConfig& teacher) {
  train::ReferenceBatch batch{rows.rows, rows.cols, rows.tokens, rows.targets, rows.document_begin};
  batch.top = rows.top, batch.temperature = teacher.temperature, batch.teacher_weight = teacher.weight;
  batch.teacher_ids = rows.teacher_ids, batch.teacher_logprobs = rows.teacher_logprobs;
  return batch;
}

/// Compares the loss and all gradients of one step with those of the model in f64.
void expect_definition(const Problem& p, const Layout& layout) {
  SCOPED_TRACE(p.teacher + layout.name());
  LayoutRun run(p, layout);
  const config::ResolvedConfig& config = run.trainer().config();
  const Rows rows = testing::rows_of(p, p.micro_batch * layout.accumulation * layout.dp(), 0);
  const train::ReferenceBatch batch = reference_batch(rows, config.teacher);
  const nn::ParameterTable table(config.model);
  const std::vector<double> weights = testing::flat_weights(run);
  const double loss =
      train::ReferenceModel<double>(config.model, table, weights, weights, config.seed).loss(batch);
  const StepRecord record = testing::expect_f64_gradients(run, batch);
  EXPECT_NEAR(record.loss, loss, 1e-5 * (1 + std::abs(loss)));
}

Layout layout_of(int64_t dp, int64_t cp, int64_t tp, int64_t pp, int64_t stage = 0) {
  Layout l;
  l.dp_shard = dp, l.cp = cp, l.tp = tp, l.pp = pp, l.stage = stage, l.accumulation = pp > 1 ? 4 / dp : 2;
  return l;
}

TEST(TeacherValues, AreThoseOfPyTorch) {
  std::ifstream file(HAWSER_TEACHER_VALUES);
  const nlohmann::json values = nlohmann::json::parse(file);
  for (const nlohmann::json& c : values.at("cases")) {
    std::vector<float> logits = c.at("logits"), losses(c.at("losses").size());
    const std::vector<float> logprobs = c.at("logprobs");
    const std::vector<int32_t> targets = c.at("targets"), ids = c.at("ids");
    const float scale = 1;
    kernels::CrossEntropy a;
    a.losses = losses.data(), a.logits = logits.data(), a.targets = targets.data(), a.grad_scale = &scale;
    a.rows = values.at("rows"), a.vocab = values.at("vocabulary"), a.softcap = c.at("softcap"),
    a.backward = true;
    a.teacher = {ids.data(), logprobs.data(), values.at("top"), c.at("temperature"), c.at("weight")};
    testing::SerialStream stream;
    kernels::cpu_kernels(kernels::best_cpu_level()).cross_entropy(a, stream);
    for (size_t r = 0; r < losses.size(); ++r) EXPECT_NEAR(losses[r], c.at("losses")[r].get<double>(), 1e-5);
    for (size_t i = 0; i < logits.size(); ++i)
      EXPECT_NEAR(logits[i], c.at("gradients")[i].get<double>(), 1e-6) << c.at("temperature") << i;
  }
}

TEST(TeacherRun, LossAndGradientsAreThoseOfTheDefinition) {
  for (const char* teacher : {kMixed, R"({"top": 3})", R"({"top": 53, "temperature": 0.5})"})
    for (const bool like_gpt2 : {true, false}) {
      Problem p = problem(teacher, like_gpt2);
      p.documents = like_gpt2;
      for (const Layout& layout : {layout_of(1, 1, 1, 1), layout_of(2, 1, 1, 1, 2), layout_of(1, 2, 1, 1),
                                   layout_of(1, 1, 2, 1), layout_of(1, 2, 2, 1), layout_of(1, 1, 1, 2)})
        expect_definition(p, layout);
    }
}

TEST(TeacherRun, LayoutsGiveTheSameBits) {
  Problem p = problem(kMixed);
  p.dropout = 0.1, p.weights_every = 3;
  Layout plain = layout_of(2, 1, 1, 1);
  const std::vector<StepRecord> expected = testing::run_layout(p, plain, 3);
  for (const int64_t stage : {1, 2, 3})
    EXPECT_EQ(first_difference(expected, testing::run_layout(p, layout_of(2, 1, 1, 1, stage), 3)), "");
  EXPECT_EQ(first_difference(expected, testing::run_layout(p, layout_of(2, 1, 1, 2), 3)), "");
  Layout recomputed = plain;
  recomputed.recompute = R"({"policy": "full"})";
  EXPECT_EQ(first_difference(expected, testing::run_layout(p, recomputed, 3)), "");
  for (const auto& [cp, tp] : {std::pair<int64_t, int64_t>{1, 2}, {2, 1}, {2, 2}}) {
    const auto divided = testing::run_layout(p, layout_of(2, cp, tp, 1), 3);
    EXPECT_EQ(first_difference(divided, testing::run_layout(p, layout_of(2, cp, tp, 1, 3), 3)), "");
    EXPECT_EQ(first_difference(divided, testing::run_layout(p, layout_of(2, cp, tp, 2), 3)), "");
  }
}

TEST(TeacherRows, Need8BytesForEachIdOfATarget) {
  constexpr int64_t kRows = 4, kColumns = 64;
  const int64_t without = train::MicroBatch::bytes(kRows, kColumns, {});
  for (const int64_t top : {1, 64})
    EXPECT_EQ(train::MicroBatch::bytes(kRows, kColumns, {{}, top}) - without, kRows * kColumns * 8 * top);
}

TEST(TeacherRun, AWeightOfZeroGivesTheBitsOfNoTeacher) {
  for (const int64_t tp : {1, 2}) {
    const Problem taught = problem(R"({"top": 5, "weight": 0, "temperature": 2})"), plain = problem("");
    const Layout layout = layout_of(1, 1, tp, 1);
    EXPECT_EQ(first_difference(testing::run_layout(plain, layout, 2), testing::run_layout(taught, layout, 2)),
              "");
  }
}

TEST(TeacherRun, ATeacherEqualToTheStudentHasNoDivergence) {
  for (const char* teacher : {R"({"top": 53})", R"({"top": 53, "temperature": 3})"})
    for (const int64_t tp : {1, 2}) {
      const Problem p = problem(teacher);
      LayoutRun run(p, layout_of(1, 1, tp, 1));
      Rows rows = testing::rows_of(p, 4, 0);
      run.trainer().inference().top_logprobs(rows.view(), 53, rows.teacher_ids, rows.teacher_logprobs);
      run.trainer().push(rows.view());
      const train::StepResult result = run.trainer().forward_backward();
      EXPECT_NEAR(result.loss, 0, 2e-6);
      EXPECT_LT(result.grad_norm, 2e-6);
    }
}

TEST(TopLogprobs, AreTheLikeliestTokensInEveryLayout) {
  const Problem p = problem(R"({"top": 7})");
  const Rows rows = testing::rows_of(p, 5, 0);
  for (const Layout& layout : {layout_of(1, 1, 1, 1), layout_of(2, 1, 1, 1, 3), layout_of(1, 2, 1, 1),
                               layout_of(1, 1, 2, 1), layout_of(1, 1, 1, 2)}) {
    LayoutRun run(p, layout);
    train::Inference& inference = run.trainer().inference();
    std::vector<float> logits(rows.tokens.size() * 53), logprobs(rows.tokens.size() * 7);
    std::vector<int32_t> ids(logprobs.size());
    inference.forward(rows.view(), logits.data(), logits.size() * sizeof(float));
    inference.top_logprobs(rows.view(), 7, ids, logprobs);
    for (size_t i = 0; i < rows.tokens.size(); ++i) {
      const float* const z = logits.data() + i * 53;
      std::vector<int32_t> order(53);
      for (int32_t j = 0; j < 53; ++j) order[static_cast<size_t>(j)] = j;
      std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return z[a] > z[b]; });
      double sum = 0;
      for (int j = 0; j < 53; ++j) sum += std::exp(static_cast<double>(z[j]));
      for (size_t j = 0; j < 7; ++j) {
        EXPECT_EQ(ids[i * 7 + j], order[j]) << layout.name() << " position " << i;
        EXPECT_NEAR(logprobs[i * 7 + j], static_cast<double>(z[order[j]]) - std::log(sum), 2e-6);
      }
    }
  }
}

TEST(TopLogprobs, OfEqualLogitsTheLowerIdComesFirst) {
  const Problem p = problem(R"({"top": 7})");
  LayoutRun run(p, layout_of(1, 1, 1, 1));
  std::vector<float> zeros(53 * 24);
  run.trainer().tensors().set(train::TensorKind::kWeight, "embedding.tokens.weight", zeros.data(),
                              zeros.size() * sizeof(float));
  const Rows rows = testing::rows_of(p, 1, 0);
  std::vector<float> logprobs(rows.tokens.size() * 7);
  std::vector<int32_t> ids(logprobs.size());
  run.trainer().inference().top_logprobs(rows.view(), 7, ids, logprobs);
  for (size_t i = 0; i < ids.size(); ++i) {
    EXPECT_EQ(ids[i], static_cast<int32_t>(i % 7));
    EXPECT_NEAR(logprobs[i], -std::log(53.0), 1e-6);
  }
}

}  // namespace teacher_test
}  // namespace hawser
