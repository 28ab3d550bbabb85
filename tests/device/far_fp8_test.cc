// Tests precision fp8 on a device whose memory the host cannot access (tests/harness/far_device): maxima and
// scales stay on the device, and every result is bit-identical to the CPU's.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engine/checkpoint/checkpoint.h"
#include "tests/device/far_run.h"
#include "tests/harness/expert_layouts.h"
#include "tests/harness/small_config.h"

namespace hawser::testing {
namespace far_fp8_test {

using Json = nlohmann::ordered_json;

/// With a margin of 12, most inputs and weights are subnormal, so every scale changes bits.
constexpr const char *kDelayed = R"({"history": 2, "margin": 12})",
                     *kCurrent = R"({"recipe": "current", "margin": 12})",
                     *kBlocks = R"({"recipe": "blocks", "margin": 12})";

Problem problem_of(const char* fp8, bool like_gpt2 = true) {
  Problem p;
  p.precision = "fp8", p.fp8 = fp8, p.like_gpt2 = like_gpt2;
  p.width = 32, p.mlp_width = 64, p.kv_heads = 4, p.head_dim = 8;  // 16 divides the sizes of products
  return p;
}

Problem with_experts(const char* fp8) {
  Problem p = problem_of(fp8, false);
  p.experts = R"({"experts": 8, "top_k": 2, "width": 12, "layers": [1], "shared_width": 20})";
  return p;
}

TEST(FarFp8, EveryRecipeTrainsAsOnTheCpu) {
  Layout steps, zero3;
  steps.accumulation = 3;
  zero3.dp_shard = 2, zero3.stage = 3, zero3.recompute = R"({"policy": "full"})";
  for (const char* fp8 : {kDelayed, kCurrent, kBlocks})
    for (const bool like_gpt2 : {true, false})
      for (const Layout& layout : {steps, zero3}) {
        expect_far_like_cpu(problem_of(fp8, like_gpt2), layout);
        if (layout.world() > 1) expect_far_like_cpu(problem_of(fp8, like_gpt2), layout, "nccl");
      }
}

TEST(FarFp8, RanksThatHavePartsOfOperandsTrainAsOnTheCpu) {
  Layout tp, cp, rows, stages, split;
  tp.tp = 2, tp.accumulation = 2;
  cp.cp = 2, cp.dp_shard = 2, cp.stage = 1;
  rows.recompute = R"({"policy": "full", "rows": 5})";
  stages.pp = 2, stages.schedule = "zb_h1", stages.accumulation = 4;
  split = stages;
  split.tp = 2, split.schedule = "zbv";
  for (const Layout& layout : {tp, cp, rows, stages, split}) {
    Problem problem = problem_of(kDelayed, layout.tp == 1);
    problem.layers = 4;
    expect_far_like_cpu(problem, layout);
    if (layout.world() > 1 && layout.world() <= 4) expect_far_like_cpu(problem, layout, "nccl");
  }
}

TEST(FarFp8, ExpertsTrainAsOnTheCpu) {
  for (const char* fp8 : {kDelayed, kBlocks}) expect_far_like_cpu(with_experts(fp8), over(2, 1));
  for (const char* transport : {"host", "nccl"})
    expect_far_like_cpu(with_experts(kDelayed), over(4, 2, 0.4), transport);
}

/// Wide arrays that only products read are kept as codes, with the scales of earlier steps.
TEST(FarFp8, KeepsTheCodesThatTheCpuKeeps) {
  Layout plain, compressed;
  compressed.recompute = R"({"compress": ["mlp_hidden", "qkv", "attention"]})";
  compressed.accumulation = 2;
  for (const char* fp8 : {kDelayed, kBlocks})
    for (const Layout& layout : {plain, compressed}) {
      Problem problem = problem_of(fp8);
      problem.width = 160, problem.mlp_width = 176;
      expect_far_like_cpu(problem, layout);
    }
}

/// The second step is captured; scales change in the steps after it, at the same addresses.
TEST(FarFp8, GraphsReadTheScalesOfEachStep) {
  for (const char* fp8 : {kDelayed, kCurrent, kBlocks}) {
    Problem problem = problem_of(fp8);
    problem.weights_every = 0;
    Layout layout;
    layout.accumulation = 2;
    LayoutRun run(far(problem), layout);
    std::vector<StepRecord> records;
    for (int step = 0; step < 5; ++step) records.push_back(run.step());
    EXPECT_EQ(first_difference(run_layout(problem, layout, 5), records), "") << fp8;
    const Json info = Json::parse(run.trainer().reports().info_json());
    EXPECT_EQ(info.at("graphs").at("launched"), 4 * info.at("graphs").at("captured").get<int64_t>());
    EXPECT_GT(info.at("graphs").at("captured"), 0) << info.value("graphs_without", "");
    EXPECT_EQ(info.at("memory").at("planned"), info.at("memory").at("high_water"));
  }
}

Json history_in(const std::string& checkpoint) {
  return Json::parse(checkpoint::inspect(checkpoint)).at("state").at("fp8_history");
}

/// The maxima of a discarded step, which had other rows, do not stay.
TEST(FarFp8, AStepRecordsItsOwnMaximaOnly) {
  const ScratchFolder folder;
  Problem problem = problem_of(kDelayed);
  problem.dropout = 0;
  LayoutRun plain(problem, {}), discarding(problem, {});
  for (LayoutRun* run : {&plain, &discarding}) run->step();
  const Rows rows = rows_of(problem, problem.micro_batch, 9);
  discarding.trainer().push(rows.view());
  discarding.trainer().forward_backward();
  discarding.trainer().discard(false);
  for (LayoutRun* run : {&plain, &discarding}) run->step();
  plain.trainer().saves().save(folder.file("plain"));
  discarding.trainer().saves().save(folder.file("discarding"));
  EXPECT_EQ(history_in(folder.file("plain")), history_in(folder.file("discarding")));
}

/// A discarded step changes no scale, and a checkpoint of the one continues on the other.
TEST(FarFp8, HistoriesMoveBetweenTheDeviceAndTheCpu) {
  const ScratchFolder folder;
  const Problem problem = problem_of(kDelayed);
  LayoutRun cpu(problem, {}), device(far(problem), {});
  for (LayoutRun* run : {&cpu, &device}) {
    run->step();
    const Rows rows = rows_of(problem, problem.micro_batch, 9);
    run->trainer().push(rows.view());
    run->trainer().forward_backward();
    run->trainer().discard(true);
    run->step();
  }
  cpu.trainer().saves().save(folder.file("cpu"));
  device.trainer().saves().save(folder.file("device"));
  EXPECT_EQ(history_in(folder.file("cpu")), history_in(folder.file("device")));
  EXPECT_GE(history_in(folder.file("device")).size(), 30u);

  LayoutRun other(far(problem), {});
  other.step();  // of other scales, which the checkpoint's replace
  other.trainer().loads().load(folder.file("cpu"), false);
  const StepRecord want = cpu.step();
  EXPECT_EQ(first_difference({want}, {device.step()}), "");
  other.skip_to(2);
  EXPECT_EQ(first_difference({want}, {other.step()}), "");
}

}  // namespace far_fp8_test
}  // namespace hawser::testing
