// Tests precision fp8 on a CUDA device: near the CPU with every recipe, and the bits of another layout where
// bf16 has them. It is built for the emulated GPU and for a real one.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/ranks/choose_device.h"
#include "tests/device/cuda/tensor_distance.h"
#include "tests/harness/layout_run.h"
#include "tests/harness/reference_run.h"
#include "tests/harness/small_config.h"

namespace hawser::testing {
namespace fp8_test {

using nlohmann::json;

constexpr const char *kDelayed = R"({"history": 2})", *kCurrent = R"({"recipe": "current"})",
                     *kBlocks = R"({"recipe": "blocks"})";

Problem problem_of(const char* fp8, bool like_gpt2 = true) {
  Problem p;
  p.precision = "fp8", p.fp8 = fp8, p.like_gpt2 = like_gpt2, p.optimizer = "sgd", p.weights_every = 0;
  p.width = 32, p.mlp_width = 64, p.kv_heads = 4, p.head_dim = 8;  // 16 divides the sizes of products
  p.dropout = 0;
  return p;
}

Problem on_cuda(Problem problem, const char* transport = "host") {
  problem.device = "cuda", problem.device_transport = transport;
  return problem;
}

bool has_gpus(int64_t count) {
  return train::choose_device("cuda").devices.size() >= static_cast<size_t>(count);
}

double relative(double cpu, double gpu) { return std::abs(cpu - gpu) / std::abs(cpu); }

/// Compares steps with the CPU's. Sums in another order move some numbers across the midpoints of fp8, which
/// are 16 times as far apart as those of bf16, so the bounds are 10 times those of train_test.cc.
void expect_near_cpu(const Problem& problem, const Layout& layout, int steps) {
  const std::vector<StepRecord> cpu = reference_run(problem, layout, steps),
                                gpu = run_layout(on_cuda(problem), layout, steps);
  for (size_t i = 0; i < cpu.size(); ++i) {
    SCOPED_TRACE(problem.fp8 + " " + layout.name() + " step " + std::to_string(i));
    const double gradients = tensor_distance(cpu[i].gradients, gpu[i].gradients);
    const double weights = tensor_distance(cpu[i].weights, gpu[i].weights);
    std::printf("distance: loss %.2g, grad_norm %.2g, gradients %.2g, weights %.2g\n",
                relative(cpu[i].loss, gpu[i].loss), relative(cpu[i].grad_norm, gpu[i].grad_norm), gradients,
                weights);
    EXPECT_EQ(cpu[i].tokens, gpu[i].tokens);
    EXPECT_LT(relative(cpu[i].loss, gpu[i].loss), 1e-3);
    EXPECT_LT(relative(cpu[i].grad_norm, gpu[i].grad_norm), 1e-2);
    EXPECT_LT(gradients, 2);
    EXPECT_LT(weights, 0.2);
  }
}

TEST(Fp8OnCuda, TrainsAsTheCpuDoes) {
  Layout layout;
  layout.accumulation = 2;
  for (const char* fp8 : {kDelayed, kCurrent, kBlocks}) expect_near_cpu(problem_of(fp8), layout, 3);
  expect_near_cpu(problem_of(kDelayed, false), layout, 1);
}

TEST(Fp8OnCuda, TrainsExpertsAsTheCpuDoes) {
  Problem problem = problem_of(kDelayed, false);
  problem.experts = R"({"experts": 6, "top_k": 2, "width": 20, "layers": [1], "shared_width": 12})";
  for (const char* fp8 : {kDelayed, kBlocks}) {
    problem.fp8 = fp8;
    const StepRecord cpu = run_layout(problem, {}, 1)[0], gpu = run_layout(on_cuda(problem), {}, 1)[0];
    EXPECT_LT(relative(cpu.loss, gpu.loss), 1e-3) << fp8;
    EXPECT_LT(relative(cpu.grad_norm, gpu.grad_norm), 1e-2) << fp8;
  }
}

void expect_bits(const Problem& problem, const Layout& one, const Layout& other, const char* transport) {
  EXPECT_EQ(first_difference(run_layout(on_cuda(problem), one, 3),
                             run_layout(on_cuda(problem, transport), other, 3)),
            "")
      << problem.fp8 << " " << other.name() << " " << transport;
}

/// Recomputed and sharded operands have the maxima of complete ones.
TEST(Fp8OnCuda, StagesOfZeroAndRecomputationKeepTheBits) {
  Layout ddp;
  ddp.dp_shard = 2;
  Layout zero1 = ddp, zero3 = ddp;
  zero1.stage = 1, zero3.stage = 3, zero3.recompute = R"({"policy": "full"})";
  for (const char* fp8 : {kDelayed, kCurrent}) expect_bits(problem_of(fp8), ddp, zero3, "host");
  expect_bits(problem_of(kBlocks), ddp, zero1, "host");
  if (!has_gpus(2)) GTEST_SKIP() << "needs 2 GPUs";
  expect_bits(problem_of(kDelayed), ddp, zero3, "nccl");
}

TEST(Fp8OnCuda, StagesOfAPipelineKeepTheBits) {
  Problem problem = problem_of(kDelayed);
  problem.layers = 4;
  Layout one, two;
  one.accumulation = two.accumulation = 3;
  two.pp = 2, two.schedule = "zb_h1";
  expect_bits(problem, one, two, "host");
  if (!has_gpus(2)) GTEST_SKIP() << "needs 2 GPUs";
  expect_bits(problem, one, two, "nccl");
}

/// Ranks that have parts of operands agree on maxima through their hosts.
TEST(Fp8OnCuda, RanksOfABlockHaveTheSameBitsOverEveryTransport) {
  if (!has_gpus(2)) GTEST_SKIP() << "needs 2 GPUs";
  for (const auto& [tp, cp] : {std::pair<int64_t, int64_t>{2, 1}, {1, 2}}) {
    Layout layout;
    layout.tp = tp, layout.cp = cp;
    expect_bits(problem_of(kDelayed), layout, layout, "nccl");
  }
}

/// The second step is captured, and those after it launch the graph with other scales.
TEST(Fp8OnCuda, GraphsKeepTheBits) {
  for (const char* fp8 : {kDelayed, kCurrent, kBlocks}) {
    Problem problem = on_cuda(problem_of(fp8), "auto"), without = problem;
    problem.optimizer = without.optimizer = "adamw";
    without.graphs = false;
    Layout layout;
    layout.accumulation = 2;
    LayoutRun run(problem, layout);
    std::vector<StepRecord> records;
    for (int step = 0; step < 4; ++step) records.push_back(run.step());
    EXPECT_EQ(first_difference(run_layout(without, layout, 4), records), "") << fp8;
    const json info = json::parse(run.trainer().reports().info_json());
    EXPECT_FALSE(info.contains("graphs_without")) << info.at("graphs_without");
    EXPECT_EQ(info.at("graphs").at("launched"), 3 * info.at("graphs").at("captured").get<int64_t>());
    EXPECT_GT(info.at("graphs").at("captured"), 0);
  }
}

/// Arrays of this width are kept as codes between forward and backward.
TEST(Fp8OnCuda, CheckpointsContinueWithTheirHistory) {
  const ScratchFolder folder;
  Problem problem = on_cuda(problem_of(R"({"history": 2, "margin": 12})"), "auto");
  problem.width = 160;
  LayoutRun whole(problem, {}), resumed(problem, {});
  whole.step(), whole.step();
  whole.trainer().saves().save(folder.file("2"));
  resumed.step();
  resumed.trainer().loads().load(folder.file("2"), false);
  resumed.skip_to(2);
  for (int step = 0; step < 2; ++step)
    EXPECT_EQ(first_difference({whole.step()}, {resumed.step()}), "") << step;
}

}  // namespace fp8_test
}  // namespace hawser::testing
