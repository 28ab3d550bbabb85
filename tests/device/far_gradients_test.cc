// Tests gradients in host memory (/offload/gradients host) for a device whose memory the host cannot access
// and whose work is late: every gradient, norm, weight and moment is bit-identical to a run without offload.
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "engine/parallel/offload.h"
#include "tests/device/far_run.h"
#include "tests/harness/equal_tensors.h"
#include "tests/harness/small_config.h"

namespace hawser::testing {
namespace far_gradients_test {

using train::Trainer;

std::string on_host(int64_t prefetch = 1, const std::string& more = "") {
  return R"({"optimizer": "host", "gradients": "host", "prefetch": )" + std::to_string(prefetch) + more + "}";
}

void expect_resident_bits(const Problem& problem, const Layout& layout, const std::string& offload) {
  Layout away = layout;
  away.offload = offload;
  EXPECT_EQ(first_difference(reference_run(problem, layout, 3), run_layout(far(problem), away, 3)), "")
      << problem.precision << " " << problem.optimizer << " " << away.name();
}

TEST(FarGradients, ChangeNoBitOnOneRank) {
  for (const char* precision : {"fp32", "bf16", "bf16_pure"})
    for (const int64_t accumulation : {1, 3})
      for (const bool like_gpt2 : {true, false}) {
        Problem problem;
        problem.precision = precision, problem.layers = 4;
        problem.tied = problem.like_gpt2 = like_gpt2, problem.frozen = !like_gpt2;
        problem.optimizer = accumulation == 1 ? "sgd" : "adamw";
        Layout layout;
        layout.accumulation = accumulation;
        for (const int64_t prefetch : {1, 3}) expect_resident_bits(problem, layout, on_host(prefetch));
      }
}

TEST(FarGradients, ChangeNoBitOnRanksThatReduceEveryMicroBatch) {
  for (const char* precision : {"fp32", "bf16", "bf16_pure"})
    for (int64_t stage = 0; stage <= 3; ++stage)
      for (const int64_t accumulation : {1, 3}) {
        if (stage == 0 && accumulation > 1) continue;
        Problem problem;
        problem.precision = precision, problem.layers = 4, problem.tied = stage != 2;
        Layout layout;
        layout.dp_shard = 3, layout.stage = stage, layout.accumulation = accumulation;
        layout.reduce = "per_micro_batch", layout.bucket_bytes = stage == 2 ? 3000 : 0;
        expect_resident_bits(problem, layout, on_host(1 + stage % 2));
      }
}

TEST(FarGradients, ChangeNoBitUnderAnyLayout) {
  std::vector<Layout> layouts(8);
  layouts[0].dp_replicate = 2, layouts[0].dp_shard = 2, layouts[0].stage = 2;
  layouts[1].tp = 2, layouts[1].recompute = R"({"policy": "full"})";
  layouts[2].cp = 2, layouts[2].dp_shard = 2, layouts[2].stage = 1;
  layouts[3].pp = 2, layouts[3].schedule = "zb_h1";
  layouts[4].pp = 2, layouts[4].schedule = "zbv", layouts[4].dp_shard = 2, layouts[4].stage = 2;
  layouts[5].dp_shard = 2, layouts[5].stage = 3, layouts[5].quantized_gradients = "int8";
  layouts[6].tree = true;
  layouts[7].pp = 2, layouts[7].schedule = "interleaved", layouts[7].chunks = 2;
  for (size_t i = 0; i < layouts.size(); ++i)
    for (const char* parameters : {"off", "host"}) {
      layouts[i].accumulation = 4;
      if (layouts[i].dp() * layouts[i].cp > 1) layouts[i].reduce = "per_micro_batch";
      Problem problem;
      problem.layers = 4, problem.precision = i % 2 == 0 ? "bf16" : "fp32";
      expect_resident_bits(
          problem, layouts[i],
          on_host(1 + static_cast<int64_t>(i) % 2, std::string(R"(, "parameters": ")") + parameters + "\""));
    }
}

/// Each micro-batch's sums come down in f32, and the arena keeps no gradients from block to block.
TEST(FarGradients, MoveTheBytesOfTheClosedForm) {
  Problem problem;
  problem.precision = "bf16", problem.layers = 8;
  Layout kept, away;
  kept.dp_shard = 3, kept.stage = 2, kept.accumulation = 4, kept.reduce = "per_micro_batch";
  away = kept, away.offload = on_host();
  LayoutRun resident(far(problem), kept), run(far(problem), away);
  run.step();
  const train::Rank& rank = run.trainer().ranks().first();
  const plan::Plan &plan = rank.plans().train, &with = resident.trainer().ranks().first().plans().train;
  int64_t elements = 0;
  for (size_t g = 0; g < rank.table().groups().size(); ++g)
    elements += rank.layout().group(static_cast<int32_t>(g)).shard;
  EXPECT_EQ(parallel::offloaded_bytes(plan, plan::Space::kHost), 4 * 4 * elements);
  const auto stay = [](const plan::Plan& p) {
    return plan::persistent_bytes(p, plan::Space::kArena, plan::Category::kGradients);
  };
  EXPECT_EQ(stay(with) - stay(plan), 4 * elements) << "all but that of look-ups";
  EXPECT_LT(plan.peak_bytes, with.peak_bytes - 4 * elements);
  EXPECT_EQ(rank.executor().slots().high_water(), plan.peak_bytes);
  int64_t sums = 0, norms = 0;
  for (const plan::Instruction& n : plan.instructions)
    sums += n.on_host() && n.op == plan::Op::kAddGrad, norms += n.on_host() && n.op == plan::Op::kGradNorm;
  EXPECT_EQ(sums, 4 * 10);
  EXPECT_EQ(norms, 10);
}

/// The sum of the micro-batches before goes up for a backward that adds to it.
TEST(FarGradients, OfOneRankGoUpAndDown) {
  Problem problem;
  problem.layers = 4;
  Layout away;
  away.accumulation = 3, away.offload = on_host();
  LayoutRun run(far(problem), away);
  const train::Rank& rank = run.trainer().ranks().first();
  int64_t elements = 0;
  for (const nn::ParameterGroup& group : rank.table().groups()) elements += group.elements;
  const plan::Plan& plan = rank.plans().train;
  EXPECT_GE(parallel::offloaded_bytes(plan, plan::Space::kHost), 3 * 4 * elements);
  EXPECT_GE(parallel::fetched_bytes(plan, plan::Space::kHost), (2 + 1) * 4 * elements);
}

TEST(FarGradients, AreReadDiscardedAndComputedAgain) {
  const ScratchFolder folder;
  const std::string tokens = write_tokens(folder, 20000);
  std::atomic<bool> cancel{false};
  const auto make = [&](const std::string& more) {
    return Trainer::create(small_config(tokens, "bf16", 2, R"(, "device": "cuda")" + more), false, &cancel);
  };
  const auto there = make(""), here = make(R"(, "offload": )" + on_host());
  for (Trainer* t : {there.get(), here.get()}) t->train_step(), t->forward_backward();
  EXPECT_EQ(there->tensors().statistics_json(), here->tensors().statistics_json());
  for (Trainer* t : {there.get(), here.get()}) {
    t->discard(false);
    t->train_step();
    t->train_step();
  }
  expect_equal_tensors(*there, *here);
}

TEST(FarGradients, AreRefusedWhereRanksAddThemBeforeTheyReduceThem) {
  Layout layout;
  layout.dp_shard = 2, layout.stage = 1, layout.accumulation = 2, layout.offload = on_host();
  const std::string message = refused(Code::kConfigInvalid, [&] { LayoutRun run(far(Problem()), layout); });
  EXPECT_NE(message.find("/offload/gradients \"host\": 2 data-parallel ranks"), std::string::npos) << message;
  EXPECT_NE(message.find("/zero/reduce to \"per_micro_batch\""), std::string::npos) << message;
}

}  // namespace far_gradients_test
}  // namespace hawser::testing
