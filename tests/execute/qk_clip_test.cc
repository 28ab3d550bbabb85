// Tests /optimizer/qk_clip: after each update, the rows of heads whose largest score was above the limit are
// scaled. Scores and updates are computed by their definition, in every kind of layout; layouts, resumed
// runs, recompute and offload give the same bits; and what must not be scaled is not.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/harness/data_parallel_ranks.h"
#include "tests/harness/layout_run.h"
#include "tests/harness/score_reference.h"
#include "tests/harness/small_config.h"

namespace hawser {
namespace qk_clip_test {

using testing::data_parallel_ranks;
using testing::Layout;
using testing::LayoutRun;
using testing::Problem;
using testing::Rows;
using testing::StepRecord;
using train::TensorKind;

using Values = std::map<std::string, std::vector<float>>;

constexpr double kLimit = 0.5;
constexpr int64_t kNope = 6, kValue = 7;  // rows of one head of unrotated keys and of values
constexpr const char* kLatent = R"({"kv_rank": 12, "rope_dim": 4, "value_dim": 7})";
constexpr const char* kCompressedQueries = R"({"kv_rank": 12, "q_rank": 14, "rope_dim": 4, "value_dim": 7})";

Problem gpt2(const std::string& precision = "fp32", const std::string& kind = "sgd") {
  Problem p;
  p.precision = precision, p.optimizer = kind, p.qk_clip = kLimit, p.dropout = 0;
  return p;
}
Problem rotary(const std::string& latent = "") {
  Problem p = gpt2();
  p.like_gpt2 = false, p.plain_scores = true, p.latent = latent;
  return p;
}

Values weights_of(train::Trainer& trainer) {
  Values all;
  for (const nn::Parameter& p : trainer.ranks().table().all()) {
    std::vector<float>& values = all[p.name];
    values.resize(static_cast<size_t>(p.size));
    trainer.tensors().get(TensorKind::kWeight, p.name, values.data(), values.size() * sizeof(float));
  }
  return all;
}

bool ends_in_any(const std::string& name, std::initializer_list<const char*> parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](const char* part) { return name.find(part) != name.npos; });
}

/// Makes scores that exceed the limit.
void raise_scores(train::Trainer& trainer) {
  Values all = weights_of(trainer);
  for (auto& [name, values] : all) {
    if (!ends_in_any(name, {".q.weight", ".k.weight", ".q_b.weight", ".kv_a.weight", ".kv_b.weight"}))
      continue;
    for (float& v : values) v *= 8.0f;
    trainer.tensors().set(TensorKind::kWeight, name, values.data(), values.size() * sizeof(float));
  }
}

std::vector<StepRecord> run(const Problem& problem, const Layout& layout, int steps) {
  LayoutRun run(problem, layout);
  raise_scores(run.trainer());
  std::vector<StepRecord> records;
  for (int step = 0; step < steps; ++step) records.push_back(run.step());
  return records;
}

/// Returns the power of limit / S by which a row of a parameter is scaled.
double power_of(const nn::ModelConfig& m, const std::string& name, int64_t row) {
  if (!m.is_latent()) return name.find(".attention.q.") != name.npos ? 1 : 0;
  if (ends_in_any(name, {".q.weight", ".q_b.weight"})) return row % m.head_dim < kNope ? 0.5 : 1;
  if (name.ends_with(".kv_b.weight")) return row % (kNope + kValue) < kNope ? 0.5 : 0;
  return 0;
}
int64_t rows_of_head(const nn::ModelConfig& m, const std::string& name) {
  return name.ends_with(".kv_b.weight") ? kNope + kValue : m.head_dim;
}

/// Counts of heads over steps.
struct Clips {
  int64_t clipped = 0, kept = 0;
};

/// Takes steps of SGD with momentum, and compares all weights of attention with plain loops over the recorded
/// gradients and over scores by their definition.
Clips expect_definition(Problem problem, const Layout& layout, int steps) {
  SCOPED_TRACE(problem.latent + (problem.like_gpt2 ? " gpt2 " : " rotary ") + layout.name());
  problem.frozen_also = {"blocks.0.attention.o.*", "blocks.0.mlp.down.*"};
  LayoutRun run(problem, layout);
  raise_scores(run.trainer());
  Values w = weights_of(run.trainer());
  for (auto& [name, values] : w) {  // so that block 0 adds nothing, and both layers read the embedding
    if (!ends_in_any(name, {"blocks.0.attention.o.", "blocks.0.mlp.down."})) continue;
    std::fill(values.begin(), values.end(), 0.0f);
    run.trainer().tensors().set(TensorKind::kWeight, name, values.data(), values.size() * sizeof(float));
  }
  const nn::ModelConfig& m = run.trainer().ranks().model().config();
  std::map<std::string, std::vector<double>> momentum;
  Clips clips;
  double scaled_rows = 0;
  for (int step = 0; step < steps; ++step) {
    const Rows rows =
        testing::rows_of(problem, problem.micro_batch * layout.accumulation * layout.dp(), step);
    std::vector<std::vector<double>> largest;
    for (int64_t layer = 0; layer < m.layers; ++layer)
      largest.push_back(testing::ScoreReference(m, w).largest(layer, rows));
    const double rate = run.trainer().learning_rate();
    const StepRecord record = run.step();
    const double clip = std::min(1.0, 0.7 / (record.grad_norm + 1e-6));
    for (const auto& [name, now] : record.weights) {
      if (!record.gradients.contains(name) || name.find(".attention.") == name.npos) continue;
      const std::vector<float>& g = record.gradients.at(name);
      std::vector<double>& buffer = momentum[name];
      buffer.resize(g.size());
      const std::vector<double>& scores = largest[static_cast<size_t>(name[7] - '0')];
      const bool vector = name.ends_with(".bias") || name.ends_with("_norm.weight");
      const nn::Parameter& p = run.trainer().ranks().table().at(name);
      const int64_t columns = p.shape.size() > 1 ? p.shape[1] : 1;
      double error = 0, norm = 0;
      for (size_t i = 0; i < g.size(); ++i) {
        const double before = static_cast<double>(w.at(name)[i]);
        buffer[i] = 0.9 * buffer[i] + clip * static_cast<double>(g[i]) + (vector ? 0 : 0.1) * before;
        double after = before - rate * buffer[i];
        const auto row = static_cast<int64_t>(i) / columns;
        const double power = power_of(m, name, row);
        if (power > 0) {
          const double s = scores[static_cast<size_t>(row / rows_of_head(m, name))];
          after *= std::pow(std::min(1.0, kLimit / s), power);
          if (s > kLimit) ++scaled_rows;
        }
        error += std::pow(static_cast<double>(now[i]) - after, 2), norm += after * after;
      }
      EXPECT_LT(std::sqrt(error), 1e-5 * std::sqrt(norm) + 1e-9) << name << " step " << step;
    }
    for (const std::vector<double>& layer : largest)
      for (const double s : layer) ++(s > kLimit ? clips.clipped : clips.kept);
    w = record.weights;
  }
  EXPECT_GT(scaled_rows, 0);
  return clips;
}

TEST(QkClip, TwentyStepsFollowTheDefinition) {
  Problem documents = gpt2();
  documents.documents = true;
  for (const Problem& problem : {gpt2(), documents, rotary(), rotary(kLatent), rotary(kCompressedQueries)}) {
    Layout layout;
    layout.accumulation = 3;  // enough rows for targets in every step
    const Clips clips = expect_definition(problem, layout, 20);
    EXPECT_GT(clips.clipped, 8);
    EXPECT_GT(clips.kept, 8);
  }
}

Layout divided(int64_t tp, int64_t cp, const char* mode, int64_t pp = 1) {
  Layout layout = data_parallel_ranks(1, 2, 2);
  layout.tp = tp, layout.cp = cp, layout.cp_mode = mode, layout.pp = pp;
  return layout;
}

TEST(QkClip, EveryLayoutFollowsTheDefinition) {
  Problem documents = gpt2();
  documents.documents = true, documents.kv_heads = 4;
  for (const Layout& layout :
       {data_parallel_ranks(2, 2, 0), data_parallel_ranks(1, 4, 3), divided(2, 1, "ring"),
        divided(1, 2, "ring"), divided(1, 2, "ulysses"), divided(1, 2, "gather"), divided(2, 2, "ring"),
        divided(2, 2, "ulysses"), divided(1, 1, "ring", 2)})
    for (const Problem& problem : {documents, rotary(kLatent)}) expect_definition(problem, layout, 2);
}

TEST(QkClip, LayoutsGiveTheSameBits) {
  for (const char* precision : {"fp32", "bf16", "fp16", "fp8"})
    for (const char* kind : {"adamw", "muon", "adamw8"}) {
      Problem problem = gpt2(precision, kind);
      problem.tied = false, problem.dropout = 0.1;
      const auto ddp = run(problem, data_parallel_ranks(4, 1, 0), 3);
      Layout stages = data_parallel_ranks(1, 4, 1), replicas = data_parallel_ranks(4, 1, 0);
      stages.pp = replicas.pp = 2;
      for (const Layout& layout :
           {data_parallel_ranks(2, 2, 1), data_parallel_ranks(1, 4, 3), stages, replicas})
        EXPECT_EQ(testing::first_difference(ddp, run(problem, layout, 3)), "") << layout.name();
    }
}

TEST(QkClip, ALimitAboveAllScoresChangesNothing) {
  for (const char* precision : {"fp32", "bf16"}) {
    Problem problem = gpt2(precision, "adamw"), without = problem;
    problem.qk_clip = 1e6, without.qk_clip = 0;
    const auto plain = run(without, data_parallel_ranks(1, 2, 2), 3);
    EXPECT_EQ(testing::first_difference(plain, run(problem, data_parallel_ranks(1, 2, 2), 3)), "");
    problem.qk_clip = kLimit;
    EXPECT_NE(testing::first_difference(plain, run(problem, data_parallel_ranks(1, 2, 2), 3)), "");
  }
}

TEST(QkClip, RecomputeGivesTheSameScores) {
  const auto scores_of = [](const std::string& recompute) {
    Layout layout = data_parallel_ranks(1, 2, 1);
    layout.recompute = recompute;
    LayoutRun run(gpt2(), layout);
    raise_scores(run.trainer());
    run.step();
    return run.trainer().ranks().first().executor().head_scores();
  };
  const std::vector<float> plain = scores_of("");
  EXPECT_EQ(plain.size(), 8u);
  for (const char* const recompute : {R"({"policy": "full"})", R"({"policy": "every", "every": 2})",
                                      R"({"policy": "selective", "arrays": ["attention"]})"})
    EXPECT_EQ(scores_of(recompute), plain) << recompute;
}

TEST(QkClip, RecomputeAndOffloadGiveTheSameBits) {
  const testing::ScratchFolder folder;
  const std::string disk = R"("disk", "folder": ")" + folder.file(".") + R"("})";
  const Problem problem = gpt2("bf16", "adamw");
  const auto plain = run(problem, data_parallel_ranks(1, 2, 2), 3);
  Layout recomputed = data_parallel_ranks(1, 2, 2);
  recomputed.recompute = R"({"policy": "full"})";
  EXPECT_EQ(testing::first_difference(plain, run(problem, recomputed, 3)), "");
  Layout offloaded = data_parallel_ranks(1, 2, 2);
  for (const char* const what : {R"({"optimizer": )", R"({"parameters": )"}) {
    offloaded.offload = what + disk;
    EXPECT_EQ(testing::first_difference(plain, run(problem, offloaded, 3)), "") << what;
  }
}

/// The loaded run rounds its weights from masters, so this also tests the rounded copies of clipped rows.
TEST(QkClip, AnyLayoutContinuesTheRunOfAnyOther) {
  const testing::ScratchFolder folder;
  const Problem problem = gpt2("bf16", "muon");
  int64_t saved = 0;
  for (const Layout& from : {data_parallel_ranks(4, 1, 0), data_parallel_ranks(1, 4, 3)})
    for (const Layout& to : {data_parallel_ranks(1, 4, 3), data_parallel_ranks(2, 2, 1)}) {
      LayoutRun first(problem, from), second(problem, to);
      raise_scores(first.trainer());
      for (int step = 0; step < 2; ++step) first.step();
      const std::string path = folder.file(std::to_string(saved++));
      first.trainer().saves().save(path);
      second.trainer().loads().load(path, false);
      second.skip_to(2);
      for (int step = 0; step < 2; ++step)
        EXPECT_EQ(testing::first_difference({first.step()}, {second.step()}), "") << from.name() << to.name();
    }
}

TEST(QkClip, DiscardedStepsClipNothing) {
  LayoutRun run(gpt2(), {});
  raise_scores(run.trainer());
  const Values before = weights_of(run.trainer());
  const Rows rows = testing::rows_of(gpt2(), 2, 0);
  run.trainer().push(rows.view());
  run.trainer().forward_backward();
  EXPECT_GT(run.trainer().ranks().first().executor().head_scores()[0], static_cast<float>(kLimit));
  run.trainer().discard(false);
  EXPECT_EQ(weights_of(run.trainer()), before);
}

TEST(QkClip, MetricsHaveTheLargestScoreAndTheHeadsAboveTheLimit) {
  LayoutRun run(gpt2(), data_parallel_ranks(1, 2, 1)), without(
                                                           [] {
                                                             Problem p = gpt2();
                                                             p.qk_clip = 0;
                                                             return p;
                                                           }(),
                                                           {});
  raise_scores(run.trainer());
  run.step(), without.step();
  const std::vector<float>& scores = run.trainer().ranks().first().executor().head_scores();
  const auto json = nlohmann::json::parse(run.trainer().metrics().json());
  EXPECT_EQ(json["attention_scores"]["largest"].get<float>(),
            *std::max_element(scores.begin(), scores.end()));
  EXPECT_EQ(
      json["attention_scores"]["heads_above_limit"].get<int64_t>(),
      std::count_if(scores.begin(), scores.end(), [](float s) { return s > static_cast<float>(kLimit); }));
  EXPECT_GT(json["attention_scores"]["heads_above_limit"].get<int64_t>(), 0);
  EXPECT_FALSE(nlohmann::json::parse(without.trainer().metrics().json()).contains("attention_scores"));
}

TEST(QkClip, FrozenQueriesStay) {
  Problem problem = gpt2();
  problem.frozen_also = {"blocks.0.attention.?.*"};
  LayoutRun run(problem, {});
  raise_scores(run.trainer());
  const Values before = weights_of(run.trainer());
  const Values after = run.step().weights;
  EXPECT_GT(run.trainer().ranks().first().executor().head_scores()[0], static_cast<float>(kLimit));
  EXPECT_EQ(after.at("blocks.0.attention.q.weight"), before.at("blocks.0.attention.q.weight"));
  EXPECT_NE(after.at("blocks.1.attention.q.weight"), before.at("blocks.1.attention.q.weight"));
}

TEST(QkClip, TheAverageFollowsTheClippedWeights) {
  Problem problem = gpt2("bf16", "adamw");
  problem.average = 0;
  for (const StepRecord& record : run(problem, data_parallel_ranks(1, 2, 3), 2))
    for (const auto& [name, average] : record.states[plan::kAverageOfWeights])
      EXPECT_EQ(average, record.weights.at(name)) << name;
}

}  // namespace qk_clip_test
}  // namespace hawser
