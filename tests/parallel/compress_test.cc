// Tests of saved activations in records of fp8: losses keep their bits, gradients stay in an envelope,
// layouts give the same bits (promises L1 and L2) or are near one rank, and memory and offload are what the
// plan says.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "engine/assembly/assemble.h"
#include "engine/config/config_tree.h"
#include "engine/nn/model.h"
#include "tests/harness/kernel_levels.h"
#include "tests/harness/near_one_rank.h"
#include "tests/harness/reference_run.h"
#include "tests/harness/same_bits.h"
#include "tests/harness/small_config.h"

namespace hawser::testing {
namespace compress_test {

const char* const kAll = R"({"compress": ["mlp_hidden", "qkv", "attention"]})";

/// GPT-2 and Llama, with widths that records do not divide.
std::vector<Problem> problems() {
  std::vector<Problem> all(2);
  all[1].like_gpt2 = false, all[1].tied = false, all[1].documents = true;
  for (Problem& p : all) p.layers = 3, p.mlp_width = 152;
  return all;
}

double length(const std::vector<float>& x) {
  double squares = 0;
  for (const float v : x) squares += static_cast<double>(v) * static_cast<double>(v);
  return std::sqrt(squares);
}
double distance(std::vector<float> a, const std::vector<float>& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] -= b[i];
  return length(a);
}

/// bf16 rounds the same activations, and more, to 8 significant bits; E4M3 has 4, so that to first order its
/// effect is at most 16 times that of bf16. The floor, a 16th, is for tensors that bf16 hardly changes.
TEST(Compress, KeepsTheLossAndChangesGradientsWithinAnEnvelope) {
  for (const Problem& problem : problems()) {
    Layout plain, compressed;
    compressed.recompute = kAll;
    Problem narrow = problem;
    narrow.precision = "bf16";
    const StepRecord want = reference_run(problem, plain, 1)[0], bf16 = run_layout(narrow, plain, 1)[0];
    const StepRecord got = run_layout(problem, compressed, 1)[0];
    EXPECT_EQ(got.loss, want.loss);
    EXPECT_NE(got.grad_norm, want.grad_norm);
    EXPECT_NEAR(got.grad_norm, want.grad_norm, want.grad_norm / 16);
    for (const auto& [name, g] : want.gradients)
      EXPECT_LE(distance(got.gradients.at(name), g),
                16 * distance(bf16.gradients.at(name), g) + (length(g) + 0.1 * want.grad_norm) / 16)
          << name;
  }
}

TEST(Compress, GivesTheSameBitsInEveryStageAndSchedule) {
  for (const char* precision : {"fp32", "bf16", "bf16_pure", "fp16", "fp8"})
    for (Problem problem : problems()) {
      problem.precision = precision;
      Layout ddp;
      ddp.dp_shard = 3, ddp.accumulation = 2, ddp.recompute = kAll;
      expect_stages_same_bits(problem, ddp, 2);
    }
  for (const std::string& schedule : steady_schedules()) {
    auto [problem, one, two] = TwoStages(problems()[0], schedule);
    one.recompute = two.recompute = kAll;
    expect_same_bits(problem, one, two, 2);
  }
}

TEST(Compress, GivesTheSameBitsWithRecomputeOfOtherArraysAndOffload) {
  const auto same = [](const Problem& problem, const char* one, const char* other,
                       const std::string& offload) {
    Layout a, b;
    a.accumulation = b.accumulation = 2;
    a.recompute = one, b.recompute = other, b.offload = offload;
    expect_same_bits(problem, a, b, 2);
  };
  for (Problem problem : problems()) {
    problem.layers = 7;
    same(problem, R"({"compress": ["attention"]})",
         R"({"policy": "selective", "arrays": ["mlp_hidden", "qkv"], "compress": ["attention"]})", "");
    same(problem, R"({"compress": ["qkv", "attention"]})",
         R"({"policy": "selective", "compress": ["qkv", "attention"]})", "");
    same(problem, kAll, kAll,
         fmt::format(R"({{"activations": "disk", "folder": "{}"}})", ::testing::TempDir()));
  }
}

/// Latent attention, experts (whose attention is compressed), adapters, and a base in 4 bits.
TEST(Compress, WorksWithEveryKindOfModel) {
  std::vector<Problem> all(3);
  all[0].like_gpt2 = false, all[0].latent = R"({"q_rank": 8, "kv_rank": 12, "rope_dim": 4, "value_dim": 6})";
  all[1].like_gpt2 = false, all[1].experts = R"({"experts": 4, "top_k": 2})";
  all[2].adapter = R"({"rank": 4, "dora": true})";
  for (size_t i = 0; i < all.size(); ++i) {
    Layout ddp, plain;
    ddp.dp_shard = 2, ddp.recompute = i == 1 ? R"({"compress": ["qkv", "attention"]})" : kAll;
    expect_stages_same_bits(all[i], ddp, 2);
    plain.dp_shard = 2;
    const StepRecord want = run_layout(all[i], plain, 1)[0], got = reference_run(all[i], ddp, 2)[0];
    EXPECT_EQ(got.loss, want.loss);
    EXPECT_NE(got.grad_norm, want.grad_norm);
    EXPECT_NEAR(got.grad_norm, want.grad_norm, want.grad_norm / 8);
  }
}

/// A sum in another order moves a number to the other side of a midpoint now and then, which changes that
/// number by a 16th. So the tolerance is that of bf16.
TEST(Compress, StaysNearOneRankWhereRanksDivideRowsAndHeads) {
  std::vector<Layout> layouts(7);
  layouts[0].tp = 2;
  layouts[1].tp = 2, layouts[1].sequence_parallel = false;
  layouts[2].cp = 2;
  layouts[3].cp = 2, layouts[3].cp_mode = "gather";
  layouts[4].cp = 2, layouts[4].tp = 2;
  layouts[5].tp = 2, layouts[5].pp = 2, layouts[5].schedule = "zb_h1", layouts[5].accumulation = 4;
  layouts[6].cp = 2, layouts[6].cp_mode = "ulysses";
  for (const Problem& base : problems())
    for (Layout& layout : layouts) {
      Problem problem = base;
      problem.optimizer = "sgd", problem.layers = 4;
      layout.recompute = layout.cp_mode == "ulysses" ? R"({"compress": ["mlp_hidden"]})" : kAll;
      expect_near_one_rank(problem, layout, 2, 3e-2);
    }
}

/// Compares bytes per token and layer of Llama 3 8B in bf16 with 129 bytes for each 128 numbers.
TEST(Compress, SavesWhatTheClosedFormSays) {
  const auto bytes = [](const char* recompute) {
    const std::string text = fmt::format(
        R"({{"preset": "llama-3.1-8b", "model": {{"layers": 2, "vocab_size": 512}}, "precision": "bf16",
            "batch": {{"micro_batch": 1, "sequence": 1024}}, "recompute": {}}})",
        recompute);
    const config::ResolvedConfig config = train::assemble(config::ConfigTree::from_json(text)).config;
    const nn::Model model(config.model);
    const nn::ModelCosts costs =
        nn::measure_costs(model, *kernel_tables().back(), 1, DType::kBf16, 1, 1024, true, false, nn::kAlone,
                          nn::kAllColumns, nullptr, {false, {}, config.recompute.compress});
    return costs.block_forward[0].saved / 1024;
  };
  const auto less = [](int64_t numbers) { return 2 * numbers - numbers / 128 * 129; };
  EXPECT_EQ(bytes("{}"), 94344);
  EXPECT_EQ(bytes(R"({"compress": ["mlp_hidden"]})"), 94344 - less(2 * 14336));
  EXPECT_EQ(bytes(R"({"compress": ["qkv"]})"), 94344 - less(48 * 128));
  EXPECT_EQ(bytes(R"({"compress": ["attention"]})"), 94344 - less(4096));
  EXPECT_EQ(bytes(kAll), 94344 - less(2 * 14336 + 48 * 128 + 4096));
}

/// The arena's peak is the plan's, and offload moves the records, not the numbers.
TEST(Compress, TakesWhatThePlanSaysInTheArenaAndOnDisk) {
  const auto run = [](const char* recompute, bool away, int64_t layers) {
    Problem problem;
    problem.layers = layers, problem.width = 64, problem.mlp_width = 512, problem.sequence = 24;
    Layout layout;
    layout.recompute = recompute;
    if (away)
      layout.offload = fmt::format(R"({{"activations": "disk", "folder": "{}"}})", ::testing::TempDir());
    LayoutRun run(problem, layout);
    run.step();
    const train::EnginePlans& plans = run.trainer().ranks().first().plans();
    EXPECT_EQ(run.trainer().ranks().first().executor().slots().high_water(), plans.train.peak_bytes);
    EXPECT_EQ(plans.outside, plans.train.outside);
    return std::pair(plans.train.at_peak[static_cast<size_t>(plan::Category::kActivations)],
                     plans.train.outside[static_cast<size_t>(plan::Space::kDisk)]);
  };
  const auto less = [](int64_t width) {
    const int64_t rows = 2 * 24, records = (width + 127) / 128;
    return 4 * rows * width - (129 * rows * records + 63) / 64 * 64;
  };
  const int64_t block = less(512) + less((4 + 2 * 2) * 16) + less(64);
  const auto four = [&](const char* recompute) {
    return run(recompute, false, 10).first - run(recompute, false, 6).first;
  };
  EXPECT_EQ(four("") - four(kAll), 4 * block);
  const int64_t moved = run("", true, 10).second - run(kAll, true, 10).second;
  EXPECT_GT(moved, 6 * (block - 4096));  // pages of 4096 bytes; the arena has a window of some blocks
}

/// An evaluation saves nothing, and generation neither: both compute with full numbers.
TEST(Compress, AnswersAreTheSame) {
  const ScratchFolder folder;
  const std::string tokens = write_tokens(folder, 20000);
  std::atomic<bool> cancel{false};
  const auto answers = [&](const char* more, bool inference) {
    const auto trainer = train::Trainer::create(small_config(tokens, "bf16", 1, more), inference, &cancel);
    const std::vector<int32_t> prompt = {1, 2, 3, 4, 5, 6, 7};
    std::string all = fmt::format("{:a}", trainer->inference().eval(nullptr, 2).loss);
    std::vector<float> logits(static_cast<size_t>(7 * trainer->ranks().config().model.vocab_size));
    trainer->inference().forward({1, 7, prompt.data(), nullptr}, logits.data(),
                                 logits.size() * sizeof(float));
    for (const float value : logits) all += fmt::format(" {:a}", value);
    trainer->inference().generate({prompt.data(), 7, 20, 0.8, 10, 0.9, 3, {}},
                                  [&](int32_t token) { return all += fmt::format(" {}", token), true; });
    return all;
  };
  const std::string more = fmt::format(R"(, "recompute": {})", kAll);
  for (const bool inference : {false, true})
    EXPECT_EQ(answers("", inference), answers(more.c_str(), inference));
}

}  // namespace compress_test
}  // namespace hawser::testing
