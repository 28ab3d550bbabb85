// ScoreClip on shards of every kind: each element of a weight is scaled by its head's factor as the full
// tensor says, to the bit, together with its rounded copy, and no other element changes.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "engine/optim/optimizer.h"
#include "kernels/include/levels.h"
#include "tests/harness/kernel_levels.h"
#include "tests/harness/test_stream.h"
#include "tests/parallel/planned_rank.h"

namespace hawser {
namespace score_clip_test {

using parallel::ShardLayout;

constexpr float kLimit = 3.0f;
constexpr int64_t kHeads = 4, kDim = 10, kNope = 6, kValue = 7;

nn::ModelConfig model(int64_t kv_rank, int64_t q_rank) {
  nn::ModelConfig m = testing::odd_model(3, false);
  m.heads = kHeads, m.kv_heads = kv_rank > 0 ? kHeads : 2;
  m.width = 24, m.head_dim = kDim, m.mlp_width = 36;
  m.bias.q = kv_rank == 0;
  m.latent.kv_rank = kv_rank, m.latent.q_rank = q_rank;
  if (kv_rank > 0) m.latent.rope_dim = kDim - kNope, m.latent.value_dim = kValue;
  return m;
}

/// The largest score of a head; some heads are at or below the limit.
float largest(int64_t layer, int64_t head) { return static_cast<float>((7 * layer + 5 * head) % 11); }

/// The factor of an element, by the definition.
float factor(bool is_latent, const nn::Parameter& p, int64_t element) {
  if (p.block < 1 || p.block > 3 || p.name.find(".attention.") == p.name.npos) return 1;
  const int64_t row = element / (p.shape.size() > 1 ? p.shape[1] : 1);
  const bool q =
      p.name.ends_with(".q.weight") || p.name.ends_with(".q.bias") || p.name.ends_with(".q_b.weight");
  const bool up = p.name.ends_with(".kv_b.weight");
  if (!q && !up) return 1;
  const int64_t rows = up ? kNope + kValue : kDim, in_head = row % rows;
  const float s = largest(p.block - 1, row / rows);
  if (s <= kLimit || (up && in_head >= kNope)) return 1;
  return is_latent && in_head < kNope ? std::sqrt(kLimit / s) : kLimit / s;
}

float value(size_t parameter, int64_t element) {
  return 1.0f + static_cast<float>((static_cast<int64_t>(parameter) * 31 + element * 7) % 1009) / 512.0f;
}

void expect_definition(int64_t kv_rank, int64_t q_rank, mesh::Degrees degrees, int64_t stage) {
  const mesh::DeviceMesh mesh(degrees);
  optim::OptimizerConfig config;
  config.kind = optim::OptimizerKind::kSgd, config.qk_clip = kLimit;
  const nn::ParameterTable table(model(kv_rank, q_rank), true, optim::trained_parts(config), degrees.tp);
  std::vector<float> scores(static_cast<size_t>(table.head_scores()));
  for (int64_t layer = 0; layer < 3; ++layer)
    for (int64_t head = 0; head < kHeads; ++head)
      scores[static_cast<size_t>(layer * table.scored_heads() + head)] = largest(layer, head);
  int64_t scaled = 0;
  for (int64_t rank = 0; rank < mesh.world_size(); ++rank) {
    ShardLayout::Options o;
    o.compute = DType::kBf16, o.mesh = mesh, o.rank = rank, o.stage = static_cast<int32_t>(stage);
    const ShardLayout layout(table, o);
    const optim::Optimizer optimizer(table, config, DType::kF32, 5,
                                     [&](const nn::Parameter& p) { return layout.share_of(p); });
    std::vector<std::vector<float>> weights, gradients;
    std::vector<std::vector<uint16_t>> copies;
    for (size_t g = 0; g < table.groups().size(); ++g) {
      const auto n = static_cast<size_t>(layout.group(static_cast<int32_t>(g)).state.size());
      weights.emplace_back(n), gradients.emplace_back(n), copies.emplace_back(n);
    }
    const auto each = [&](auto fn) {  // fn(parameter, element, weight, copy)
      for (size_t i = 0; i < table.all().size(); ++i)
        for (const mesh::ElementRun& run : layout.state_of(table.all()[i], rank))
          for (int64_t e = run.begin; e < run.end; ++e) {
            const auto g = static_cast<size_t>(table.all()[i].group),
                       at = static_cast<size_t>(run.at + e - run.begin);
            fn(i, e, weights[g][at], copies[g][at]);
          }
    };
    each([&](size_t i, int64_t e, float& weight, uint16_t& copy) {
      weight = value(i, e), copy = testing::to_bf16(weight);
    });
    testing::SerialStream stream(2);
    const kernels::OptimizerScalars scalars = optim::step_scalars(config, 0, 1, 1);
    for (size_t g = 0; g < table.groups().size(); ++g) {
      const mesh::FlatRange range = layout.group(static_cast<int32_t>(g)).state;
      optimizer.step(static_cast<int32_t>(g),
                     {range.begin, range.end, weights[g].data(), copies[g].data(), gradients[g].data(), {}},
                     &scalars, scores.data(), kernels::cpu_kernels(kernels::best_cpu_level()), stream);
    }
    each([&](size_t i, int64_t e, float weight, uint16_t copy) {
      const nn::Parameter& p = table.all()[i];
      const float f = factor(kv_rank > 0, p, e);
      ASSERT_EQ(weight, f * value(i, e)) << p.name << " " << e;
      ASSERT_EQ(copy, testing::to_bf16(weight)) << p.name << " " << e;
      scaled += f != 1;
    });
  }
  EXPECT_GT(scaled, 3 * kHeads * kNope);
}

TEST(ScoreClip, ScalesTheRowsOfHeadsOnEveryMesh) {
  for (const auto& [kv_rank, q_rank] : {std::pair<int64_t, int64_t>{0, 0}, {12, 0}, {12, 14}})
    for (const int64_t tp : {1, 2, 4})
      for (const int64_t shards : {1, 3})
        for (const int64_t stage : {1, 3}) {
          mesh::Degrees degrees;
          degrees.tp = tp, degrees.dp_shard = shards;
          expect_definition(kv_rank, q_rank, degrees, stage);
        }
}

}  // namespace score_clip_test
}  // namespace hawser
