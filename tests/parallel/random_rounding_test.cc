// Random rounding test: random rounding of bf16 state (precision bf16_pure) on ranks that hold parts of
// parameters. On every mesh, each element of each tensor gets the bits of one rank that holds the full
// tensor.
#include <gtest/gtest.h>

#include <bit>

#include "engine/optim/optimizer.h"
#include "kernels/include/levels.h"
#include "tests/harness/test_stream.h"
#include "tests/parallel/planned_rank.h"

namespace hawser::parallel {
namespace random_rounding_test {

/// The bf16 state of one rank's groups, from element state.begin on.
struct State {
  std::vector<std::vector<uint16_t>> weights, moment1, moment2, gradients;  // indexed by group
};

uint16_t bf16(float x) { return static_cast<uint16_t>(std::bit_cast<uint32_t>(x) >> 16); }

/// Returns a value for each element of a tensor and each use, equal on every mesh.
uint16_t value(size_t parameter, int64_t element, int use) {
  const auto mixed =
      (parameter * 977 + static_cast<size_t>(element) * 31 + static_cast<size_t>(use) * 7) % 1013;
  return bf16(static_cast<float>(mixed) * (use == 2 ? 1e-5f : 1e-3f));
}

struct Case {
  int64_t tp = 1, shards = 1, cp = 1, stage = 0, kv_heads = 2;
};

/// Returns the state of every element of every tensor after two steps, gathered from all ranks of a mesh.
std::vector<std::vector<uint16_t>> after_steps(const Case& c, optim::OptimizerConfig config) {
  nn::ModelConfig m = testing::odd_model(1, false);
  m.heads = 4, m.kv_heads = c.kv_heads, m.width = 16, m.mlp_width = 24;
  m.bias = {.q = true, .k = true, .v = true, .o = true, .gate = true, .up = true, .down = true, .norm = true};
  const nn::ParameterTable table(m, true, {}, c.tp);
  mesh::Degrees degrees;
  degrees.dp_shard = c.shards, degrees.cp = c.cp, degrees.tp = c.tp;
  const mesh::DeviceMesh mesh(degrees);
  const kernels::KernelTable& kernels = kernels::cpu_kernels(kernels::best_cpu_level());
  std::vector<std::vector<uint16_t>> all;
  for (const nn::Parameter& p : table.all()) all.emplace_back(3 * p.size, uint16_t{0});
  for (int64_t rank = 0; rank < mesh.world_size(); ++rank) {
    ShardLayout::Options o;
    o.compute = o.state = DType::kBf16, o.mesh = mesh, o.rank = rank, o.stage = c.stage;
    const ShardLayout layout(table, o);
    State s;
    for (size_t g = 0; g < table.groups().size(); ++g) {
      const mesh::FlatRange range = layout.group(static_cast<int32_t>(g)).state;
      for (auto* array : {&s.weights, &s.moment1, &s.moment2, &s.gradients})
        array->emplace_back(static_cast<size_t>(range.size()), uint16_t{0});
    }
    const auto each = [&](auto fn) {  // fn(parameter, group, element, place)
      for (size_t i = 0; i < table.all().size(); ++i)
        for (const mesh::ElementRun& run : layout.state_of(table.all()[i], rank))
          for (int64_t e = run.begin; e < run.end; ++e)
            fn(i, static_cast<size_t>(table.all()[i].group), e, static_cast<size_t>(run.at + e - run.begin));
    };
    each([&](size_t i, size_t g, int64_t e, size_t at) {
      s.weights[g][at] = value(i, e, 0), s.moment1[g][at] = value(i, e, 1), s.moment2[g][at] = value(i, e, 2);
      s.gradients[g][at] = value(i, e, 3);
    });
    const optim::Optimizer optimizer(table, config, DType::kBf16, 5,
                                     [&](const nn::Parameter& p) { return layout.share_of(p); });
    testing::SerialStream stream(2);
    for (int64_t step = 1; step <= 2; ++step) {
      const kernels::OptimizerScalars scalars = optim::step_scalars(config, 0.01, 0.7, step);
      for (size_t g = 0; g < table.groups().size(); ++g) {
        const mesh::FlatRange range = layout.group(static_cast<int32_t>(g)).state;
        optimizer.step(static_cast<int32_t>(g),
                       {range.begin,
                        range.end,
                        s.weights[g].data(),
                        nullptr,
                        s.gradients[g].data(),
                        {s.moment1[g].data(), s.moment2[g].data()}},
                       &scalars, nullptr, kernels, stream);
      }
    }
    int64_t held = 0, not_zero = 0;
    each([&](size_t i, size_t g, int64_t e, size_t at) {
      uint16_t* const to = &all[i][static_cast<size_t>(3 * e)];
      to[0] = s.weights[g][at], to[1] = s.moment1[g][at], to[2] = s.moment2[g][at];
      held += to[0] != 0;
    });
    for (const auto& group : s.weights)
      for (const uint16_t w : group) not_zero += w != 0;
    EXPECT_EQ(not_zero, held) << "padding is not trained";
  }
  return all;
}

TEST(RandomRounding, IsThatOfTheWholeTensorOnEveryMesh) {
  for (const auto kind : {optim::OptimizerKind::kAdamW, optim::OptimizerKind::kSgd}) {
    optim::OptimizerConfig config;
    config.kind = kind, config.momentum = 0.9, config.weight_decay = 0.1;
    const auto whole = after_steps({}, config);
    for (const int64_t tp : {1, 2, 4})
      for (const int64_t shards : {1, 2, 3})
        for (const int64_t cp : {1, 2})
          for (const int64_t stage : {0, 1, 3})
            EXPECT_EQ(after_steps({tp, shards, cp, stage}, config), whole)
                << "tp " << tp << ", dp_shard " << shards << ", cp " << cp << ", stage " << stage;
  }
}

}  // namespace random_rounding_test
}  // namespace hawser::parallel
