// On GPUs, rows of zeros follow the tables of the vocabulary (nn::Parameter::zeros). Their gradients are zero
// (nn_padded_table_test), so weights and moments of these rows stay zero with every optimizer.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "engine/assembly/assemble.h"
#include "engine/assembly/engine_plans.h"
#include "engine/nn/model.h"
#include "engine/optim/optimizer.h"
#include "kernels/include/levels.h"
#include "tests/harness/test_stream.h"

namespace hawser {
namespace padded_rows_test {

using optim::OptimizerConfig;

/// Elements of a parameter group in f32, bf16 or records.
struct Array {
  DType type;
  std::vector<char> bytes;

  Array(DType type_, int64_t n) : type(type_), bytes(static_cast<size_t>(dtype_bytes(type_, n))) {}
  void set(int64_t i, float value) {
    const size_t size = type == DType::kF32 ? 4 : 2;  // bf16: the upper half of an f32
    std::memcpy(bytes.data() + static_cast<size_t>(i) * size, reinterpret_cast<char*>(&value) + 4 - size,
                size);
  }
  bool is_zero(int64_t begin, int64_t end) const {
    for (int64_t i = dtype_bytes(type, begin); i < dtype_bytes(type, end); ++i)
      if (bytes[static_cast<size_t>(i)] != 0) return false;
    return true;
  }
};

config::ResolvedConfig config_of(const std::string& kind) {
  return train::assemble(config::ConfigTree::from_json(R"({"cpu": {"threads": 1}, "batch": {"micro_batch": 1},
      "model": {"vocab_size": 61, "context": 16, "layers": 1, "width": 32, "heads": 4},
      "optimizer": {"weight_decay": 0.1, "kind": ")" + kind +
                                                       R"("}})"))
      .config;
}

/// Takes 20 steps of the group of the table, and looks at the zeros behind it.
void take_steps(const std::string& kind, DType state) {
  SCOPED_TRACE(kind + " " + dtype_name(state));
  const config::ResolvedConfig config = config_of(kind);
  const nn::Model model = train::model_of(config, 64);
  const nn::Parameter& tokens = model.table().at("embedding.tokens.weight");
  const nn::ParameterGroup& group = model.table().groups()[static_cast<size_t>(tokens.group)];
  ASSERT_EQ(tokens.zeros, 3 * 32);
  const int64_t n = group.elements, behind = tokens.offset + tokens.room, end = behind + tokens.zeros;

  Array weights(state, n), gradients(state, n), copy(DType::kBf16, n);
  for (const nn::Parameter& p : model.table().all())
    for (int64_t i = p.offset; p.group == tokens.group && i < p.offset + p.room; ++i)
      weights.set(i, 0.5f), gradients.set(i, i % 2 == 0 ? 0.25f : -0.125f);
  const Array before = weights;
  std::vector<Array> kept;
  optim::OptimizerRun run;
  run.end = n, run.weights = weights.bytes.data(), run.gradients = gradients.bytes.data();
  if (state == DType::kF32) run.copy = copy.bytes.data();
  const optim::StateTypes types = optim::states_of(optim::states_by_kind(config.optimizer, state), group);
  kept.reserve(types.size());
  for (size_t s = 0; s < types.size(); ++s)
    if (types[s]) run.states[s] = kept.emplace_back(*types[s], n).bytes.data();

  const optim::Optimizer optimizer(model.table(), config.optimizer, state, 3);
  testing::SerialStream stream;
  for (int64_t step = 1; step <= 20; ++step) {
    const kernels::OptimizerScalars scalars = optim::step_scalars(config.optimizer, 0.01, 1, step);
    optimizer.step(tokens.group, run, &scalars, nullptr, kernels::cpu_kernels(kernels::best_cpu_level()),
                   stream);
  }
  EXPECT_NE(weights.bytes, before.bytes);
  EXPECT_TRUE(weights.is_zero(behind, end));
  EXPECT_TRUE(copy.is_zero(behind, end));
  for (const Array& array : kept) EXPECT_TRUE(is_state_block(array.type) || array.is_zero(behind, end));
}

TEST(PaddedRows, StayZeroWithEveryOptimizer) {
  for (const char* const kind : {"adamw", "sgd", "lion", "muon", "adamw8"}) take_steps(kind, DType::kF32);
  for (const char* const kind : {"adamw", "sgd", "lion"}) take_steps(kind, DType::kBf16);
}

}  // namespace padded_rows_test
}  // namespace hawser
