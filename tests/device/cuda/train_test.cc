// Compares training on a CUDA device with the CPU, step by step: loss, gradient norm, every gradient, weight
// and moment. It is built for the emulated GPU, whose streams are as late as possible, and for a real one.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/ranks/choose_device.h"
#include "tests/device/cuda/tensor_distance.h"
#include "tests/harness/layout_run.h"
#include "tests/harness/reference_run.h"
#include "tests/harness/small_config.h"

namespace hawser::testing {
namespace train_test {

using nlohmann::json;
using train::Trainer;

/// The distance of two records: for each kind of tensor, the largest distance relative to the root mean
/// square of the CPU's.
struct Distance {
  double loss = 0, grad_norm = 0, gradients = 0, weights = 0, moment1 = 0;
};

double relative(double cpu, double gpu) { return std::abs(cpu - gpu) / std::abs(cpu); }

Distance distance(const StepRecord& cpu, const StepRecord& gpu) {
  EXPECT_EQ(cpu.tokens, gpu.tokens);
  return {relative(cpu.loss, gpu.loss), relative(cpu.grad_norm, gpu.grad_norm),
          tensor_distance(cpu.gradients, gpu.gradients), tensor_distance(cpu.weights, gpu.weights),
          tensor_distance(cpu.states[plan::kFirstMoment], gpu.states[plan::kFirstMoment])};
}

/// Returns the largest distances of three steps.
Distance train(Problem problem, const Layout& layout) {
  const std::vector<StepRecord> cpu = reference_run(problem, layout, 3);
  problem.device = "cuda";
  if (layout.world() > 1) problem.device_transport = layout.tp_chunks > 1 ? "nccl" : "host";
  const std::vector<StepRecord> gpu = run_layout(problem, layout, 3);
  Distance worst;
  for (size_t i = 0; i < cpu.size(); ++i) {
    const Distance d = distance(cpu[i], gpu[i]);
    worst = {std::max(worst.loss, d.loss), std::max(worst.grad_norm, d.grad_norm),
             std::max(worst.gradients, d.gradients), std::max(worst.weights, d.weights),
             std::max(worst.moment1, d.moment1)};
  }
  std::printf("distance: loss %.2g, grad_norm %.2g, gradients %.2g, weights %.2g, moment1 %.2g\n", worst.loss,
              worst.grad_norm, worst.gradients, worst.weights, worst.moment1);
  return worst;
}

/// Uses SGD, because AdamW turns rounding errors into steps of size lr where a gradient is zero.
Problem problem_in(const char* precision) {
  Problem problem;
  problem.precision = precision;
  problem.optimizer = "sgd";
  return problem;
}

// Distances measured on the emulated GPU in fp32: 1e-8 of the loss, 2e-8 of the gradient norm, 2e-6 of
// gradients, 1e-6 of weights. In bf16 probabilities are rounded relative to a running maximum, so other tiles
// round other values: 3e-5 of the loss, 1e-4 of the norm, 3e-2 of gradients, 3e-3 of weights. Bounds are a
// multiple of these.

TEST(TrainOnCuda, AsTheCpuDoesInFp32) {
  Layout layout;
  layout.accumulation = 2;
  const Distance d = train(problem_in("fp32"), layout);
  EXPECT_LT(d.loss, 1e-6);
  EXPECT_LT(d.grad_norm, 1e-6);
  EXPECT_LT(d.gradients, 1e-4);
  EXPECT_LT(d.weights, 2e-5);
}

TEST(TrainOnCuda, AsTheCpuDoesInBf16) {
  const Distance d = train(problem_in("bf16"), Layout());
  EXPECT_LT(d.loss, 1e-4);
  EXPECT_LT(d.grad_norm, 1e-3);
  EXPECT_LT(d.gradients, 0.2);
  EXPECT_LT(d.weights, 2e-2);
}

/// Both round with the same random words. If fp32 differs in the last bits, a rounding sometimes goes the
/// other way. Distances measured as above: 2e-5 of the loss, 3e-4 of the norm, 7e-2 of gradients, 2e-2 of
/// weights.
TEST(TrainOnCuda, AsTheCpuDoesInBf16Pure) {
  Layout layout;
  layout.accumulation = 2;
  const Distance d = train(problem_in("bf16_pure"), layout);
  EXPECT_LT(d.loss, 1e-4);
  EXPECT_LT(d.grad_norm, 2e-3);
  EXPECT_LT(d.gradients, 0.3);
  EXPECT_LT(d.weights, 8e-2);
}

/// With one micro-batch and no biases, products write bf16 gradients. With rows in tiles, here one of all
/// rows, the same product writes an f32 gradient, which is rounded from a window.
TEST(TrainOnCuda, RoundsGradientsOnceWithoutWindows) {
  Problem problem = problem_in("bf16_pure");
  problem.device = "cuda", problem.device_transport = "host";
  problem.like_gpt2 = false;
  Layout divided;
  divided.dp_shard = 2, divided.stage = 2;
  for (Layout layout : {Layout(), divided}) {
    const std::vector<StepRecord> rounding = run_layout(problem, layout, 2);
    layout.recompute = R"({"rows": 1000000})";
    EXPECT_EQ(first_difference(rounding, run_layout(problem, layout, 2)), "") << layout.name();
  }
}

TEST(TrainOnCuda, WithAdamW) {
  Problem problem = problem_in("fp32");
  problem.optimizer = "adamw";
  const Distance d = train(problem, Layout());
  EXPECT_LT(d.loss, 1e-5);
  EXPECT_LT(d.moment1, 1e-3);
}

TEST(TrainOnCuda, OverABaseInNf4) {
  Problem problem = problem_in("fp32");
  problem.adapter = R"({"rank": 2, "base": "nf4", "dora": true})";
  Layout layout;
  layout.dp_shard = 2, layout.stage = 3;
  for (const Layout& each : {Layout(), layout}) {
    const Distance d = train(problem, each);
    EXPECT_LT(d.loss, 1e-6);
    EXPECT_LT(d.grad_norm, 1e-5);
    EXPECT_LT(d.gradients, 1e-4);
    EXPECT_LT(d.weights, 2e-5);
  }
}

/// Transfers are staged through host memory, as for ranks that share a GPU, with one order of sums for all
/// layouts.
TEST(TrainOnCuda, OnRanksThatSpeakThroughTheHost) {
  Problem problem = problem_in("fp32");
  problem.device = "cuda", problem.device_transport = "host";
  Layout ddp, zero;
  ddp.dp_shard = zero.dp_shard = 2;
  zero.stage = 3;
  EXPECT_EQ(first_difference(run_layout(problem, ddp, 2), run_layout(problem, zero, 2)), "");
}

/// Exchanges within a block are staged through host memory. Two ranks may share a GPU.
TEST(TrainOnCuda, OnRanksThatDivideBlocksAndColumns) {
  for (const auto& [tp, cp, mode] : {std::tuple<int64_t, int64_t, const char*>{2, 1, "ring"},
                                     {1, 2, "ring"},
                                     {1, 2, "ulysses"},
                                     {1, 2, "gather"},
                                     {2, 2, "ring"}})
    for (const bool like_gpt2 : {true, false}) {
      Problem problem = problem_in("fp32");
      problem.like_gpt2 = like_gpt2, problem.documents = !like_gpt2;
      Layout layout;
      layout.tp = tp, layout.cp = cp, layout.cp_mode = mode;
      SCOPED_TRACE(layout.name());
      const Distance d = train(problem, layout);
      EXPECT_LT(d.loss, 1e-6);
      EXPECT_LT(d.grad_norm, 1e-6);
      EXPECT_LT(d.gradients, 1e-4);
      EXPECT_LT(d.weights, 2e-5);
    }
}

/// One rank writes the outputs of branches as bf16. Ranks that divide blocks sum f32 addends, between GPUs
/// also in chunks.
TEST(TrainOnCuda, OnRanksThatDivideBlocksInBf16) {
  for (const bool sequence_parallel : {false, true})
    for (const int64_t chunks : {1, 3}) {
      if (chunks > 1 && train::choose_device("cuda").devices.size() < 2) continue;
      Layout layout;
      layout.tp = 2, layout.sequence_parallel = sequence_parallel, layout.tp_chunks = chunks;
      const Distance d = train(problem_in("bf16"), layout);
      EXPECT_LT(d.loss, 1e-4);
      EXPECT_LT(d.grad_norm, 1e-3);
      EXPECT_LT(d.gradients, 0.2);
      EXPECT_LT(d.weights, 2e-2);
    }
}

/// The CPU's kernels update state in host memory to the bits of the GPU's kernels.
TEST(TrainOnCuda, WithAnUpdateOnTheHost) {
  for (const char* precision : {"fp32", "bf16", "bf16_pure"})
    for (const char* optimizer : {"adamw", "sgd"}) {
      Problem problem;
      problem.precision = precision, problem.optimizer = optimizer;
      problem.device = "cuda", problem.device_transport = "host";
      Layout resident;
      resident.accumulation = 2;
      if (problem.optimizer == "adamw") resident.dp_shard = 2, resident.stage = 1;
      Layout away = resident;
      away.offload = R"({"optimizer": "host"})";
      EXPECT_EQ(first_difference(run_layout(problem, resident, 4), run_layout(problem, away, 4)), "")
          << precision << " " << optimizer;
    }
}

/// Transfers from GPU to GPU give the same sums.
TEST(TrainOnCuda, OnRanksThatSpeakOverNccl) {
  Problem host = problem_in("bf16");
  host.device = "cuda", host.device_transport = "host";
  Problem nccl = host;
  nccl.device_transport = "nccl";
  Layout ddp, zero1, zero2, zero3, hybrid;
  for (Layout* layout : {&ddp, &zero1, &zero2, &zero3}) layout->dp_shard = 2;
  zero1.stage = 1, zero2.stage = 2, zero3.stage = 3;
  ddp.accumulation = 2, ddp.gradient_type = "bf16";
  hybrid.dp_replicate = 2, hybrid.dp_shard = 2, hybrid.stage = 2;
  const size_t gpus = train::choose_device("cuda").devices.size();
  for (const Layout& layout : {ddp, zero1, zero2, zero3, hybrid}) {
    if (gpus < static_cast<size_t>(layout.dp())) GTEST_SKIP() << "needs " << layout.dp() << " GPUs";
    EXPECT_EQ(first_difference(run_layout(host, layout, 2), run_layout(nccl, layout, 2)), "")
        << layout.name();
  }
}

/// The second step also captures exchanges inside blocks, and the third launches them again.
TEST(TrainOnCuda, OnRanksThatDivideBlocksOverNccl) {
  const size_t gpus = train::choose_device("cuda").devices.size();
  for (const auto& [tp, cp, mode] : {std::tuple<int64_t, int64_t, const char*>{2, 1, "ring"},
                                     {1, 2, "ring"},
                                     {1, 2, "ulysses"},
                                     {1, 2, "gather"},
                                     {2, 2, "ring"}}) {
    Problem host = problem_in("bf16");
    host.device = "cuda", host.device_transport = "host", host.weights_every = 0;
    Problem nccl = host;
    nccl.device_transport = "nccl";
    Layout layout;
    layout.tp = tp, layout.cp = cp, layout.cp_mode = mode;
    if (gpus < static_cast<size_t>(layout.world())) GTEST_SKIP() << "needs " << layout.world() << " GPUs";
    LayoutRun run(nccl, layout);
    std::vector<StepRecord> records;
    for (int step = 0; step < 3; ++step) records.push_back(run.step());
    EXPECT_EQ(first_difference(run_layout(host, layout, 3), records), "") << layout.name();
    const json info = json::parse(run.trainer().reports().info_json());
    EXPECT_EQ(info.at("graphs").at("launched"), 2 * info.at("graphs").at("captured").get<int64_t>());
    EXPECT_GT(info.at("graphs").at("launched"), 0) << info.value("graphs_without", "");
  }
}

/// Rows are sent to experts of other ranks in several rounds: through host memory, then from GPU to GPU with
/// bit-identical results. Only blocks without experts are in graphs.
TEST(TrainOnCuda, OnRanksThatDivideExperts) {
  Problem problem = problem_in("fp32");
  problem.weights_every = 0, problem.like_gpt2 = false;
  problem.experts = R"({"experts": 6, "top_k": 2, "width": 20, "layers": [1], "shared_width": 12})";
  problem.moe = R"({"aux_loss": 0.3, "z_loss": 0.1})";
  Layout layout;
  layout.dp_shard = layout.ep = 2, layout.rows_factor = 0.5;
  const Distance d = train(problem, layout);
  EXPECT_LT(d.loss, 1e-6);
  EXPECT_LT(d.grad_norm, 1e-6);
  EXPECT_LT(d.gradients, 1e-4);
  EXPECT_LT(d.weights, 2e-5);
  if (train::choose_device("cuda").devices.size() < 2) GTEST_SKIP() << "needs 2 GPUs";
  Problem host = problem;
  host.precision = "bf16", host.device = "cuda", host.device_transport = "host";
  Problem nccl = host;
  nccl.device_transport = "nccl";
  LayoutRun run(nccl, layout);
  std::vector<StepRecord> records;
  for (int step = 0; step < 3; ++step) records.push_back(run.step());
  EXPECT_EQ(first_difference(run_layout(host, layout, 3), records), "");
  const json info = json::parse(run.trainer().reports().info_json());
  EXPECT_EQ(info.at("graphs").at("launched"), 2 * info.at("graphs").at("captured").get<int64_t>());
  EXPECT_GT(info.at("graphs").at("launched"), 0) << info.value("graphs_without", "");
}

/// Stages that share a GPU communicate through host memory, stages with one GPU each from GPU to GPU.
TEST(TrainOnCuda, OnStagesOfAPipelineWithTheBitsOfOne) {
  const size_t gpus = train::choose_device("cuda").devices.size();
  for (const char* schedule : {"1f1b", "zbv"})
    for (const char* transport : {"host", "nccl"}) {
      Problem problem = problem_in("bf16");
      problem.device = "cuda", problem.layers = 4, problem.weights_every = 0;
      Layout one, stages;
      one.accumulation = stages.accumulation = 4;
      stages.pp = 2, stages.schedule = schedule;
      const std::vector<StepRecord> want = reference_run(problem, one, 3);
      problem.device_transport = transport;
      if (transport[0] == 'n' && gpus < 2) GTEST_SKIP() << "needs 2 GPUs";
      EXPECT_EQ(first_difference(want, run_layout(problem, stages, 3)), "") << stages.name() << transport;
    }
}

TEST(TrainOnCuda, TwiceWithTheSameBits) {
  Problem problem = problem_in("bf16");
  problem.device = "cuda";
  EXPECT_EQ(first_difference(run_layout(problem, Layout(), 2), run_layout(problem, Layout(), 2)), "");
}

/// The first step submits its work directly, the second is captured, the third launches the graph again.
TEST(TrainOnCuda, InGraphsWithTheSameBits) {
  Problem problem = problem_in("bf16");
  problem.device = "cuda", problem.optimizer = "adamw";
  problem.weights_every = 0;  // a step with loss weights has graphs of its own
  Layout layout;
  layout.accumulation = 2;
  Problem without = problem;
  without.graphs = false;
  LayoutRun run(problem, layout);
  std::vector<StepRecord> records;
  for (int step = 0; step < 3; ++step) records.push_back(run.step());
  EXPECT_EQ(first_difference(run_layout(without, layout, 3), records), "");
  const json info = json::parse(run.trainer().reports().info_json());
  EXPECT_EQ(info.at("graphs"), json({{"captured", 4}, {"launched", 8}}));
  EXPECT_FALSE(info.contains("graphs_without")) << info.at("graphs_without");
}

/// Blocks leave their last sum to the next norm, unless activations are offloaded. With dropout, the head
/// computes its sum separately. If x' is recomputed, the sum is in place.
TEST(TrainOnCuda, WithTheSameBitsWhileActivationsAreOnTheHost) {
  for (const bool graphs : {false, true})
    for (const char* recompute : {"", R"({"policy": "every", "every": 2})"}) {
      Problem problem = problem_in("bf16");
      problem.device = "cuda", problem.layers = 7, problem.graphs = graphs;
      problem.dropout = graphs ? 0.1 : 0;
      Layout layout;
      layout.recompute = recompute;
      Layout away = layout;
      away.offload = R"({"activations": "host"})";
      EXPECT_EQ(first_difference(run_layout(problem, layout, 4), run_layout(problem, away, 4)), "");
    }
}

/// The second run uses the algorithms that the first one timed.
TEST(TrainOnCuda, WithTheSameBitsFromAFileOfAlgorithms) {
  ScratchFolder folder;
  Problem problem = problem_in("bf16");
  problem.device = "cuda", problem.algorithm_cache = folder.file("algorithms");
  EXPECT_EQ(first_difference(run_layout(problem, Layout(), 2), run_layout(problem, Layout(), 2)), "");
}

/// Rows have several documents, and a library's attention supports the heads.
TEST(TrainOnCuda, PackedDocumentsInBf16) {
  ScratchFolder folder;
  config::ConfigTree config = small_config(write_tokens(folder, 20000), "bf16", 2);
  config.set("/model/heads", "5");
  config.set("/model/kv_heads", "1");
  config.set("/model/dropout", R"({"embedding": 0, "attention": 0, "residual": 0})");
  std::atomic<bool> cancel{false};
  const auto cpu = Trainer::create(config, false, &cancel);
  config.set("/device", "\"cuda\"");
  const auto gpu = Trainer::create(config, false, &cancel);
  for (int step = 0; step < 3; ++step) {
    const auto want = cpu->train_step(), got = gpu->train_step();
    EXPECT_LT(relative(want.loss, got.loss), 1e-3) << step;
    EXPECT_LT(relative(want.grad_norm, got.grad_norm), 1e-2) << step;
  }
}

/// The model of the quickstart, on short rows.
class Quickstart : public ::testing::Test {
 protected:
  std::unique_ptr<Trainer> make(const std::string& device) {
    json config = json::parse(std::ifstream(HAWSER_QUICKSTART));
    config["device"] = device;
    config["data"]["path"] = text_;
    config["batch"] = {{"micro_batch", 1}, {"sequence", 16}};
    config["cpu"] = {{"threads", 2}};
    return Trainer::create(config::ConfigTree::from_json(config.dump()), false, &cancel_);
  }
  std::string text() {
    const std::string path = folder_.file("text.txt");
    std::ofstream out(path);
    for (int line = 0; line < 300; ++line) out << "Line " << line * line << " of a text that says little.\n";
    return path;
  }

  ScratchFolder folder_;
  const std::string text_ = text();
  std::atomic<bool> cancel_{false};
};

TEST_F(Quickstart, TrainsToTheCpusLossesAndItsCheckpointsMoveBothWays) {
  const auto cpu = make("cpu"), gpu = make("cuda");
  EXPECT_EQ(json::parse(gpu->reports().info_json()).at("device"), "cuda");
  const auto same_step = [](Trainer& a, Trainer& b) {
    const double want = a.train_step().loss;
    EXPECT_NEAR(b.train_step().loss, want, 1e-5 * want);
  };
  for (int step = 0; step < 3; ++step) same_step(*cpu, *gpu);
  const double want = cpu->inference().eval(nullptr, 2).loss;
  EXPECT_NEAR(gpu->inference().eval(nullptr, 2).loss, want, 1e-5 * want);

  cpu->saves().save(folder_.file("of-cpu"));
  gpu->saves().save(folder_.file("of-gpu"));
  const auto loaded_on_cpu = make("cpu"), loaded_on_gpu = make("cuda");
  loaded_on_cpu->loads().load(folder_.file("of-gpu"), false);
  loaded_on_gpu->loads().load(folder_.file("of-cpu"), false);
  same_step(*loaded_on_cpu, *gpu);
  same_step(*cpu, *loaded_on_gpu);
}

}  // namespace train_test
}  // namespace hawser::testing
