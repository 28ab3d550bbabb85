// Weight offload test: weights that are on disk between uses change no bit, under any layout, beside
// activations and state that are there, too; the arena and the file have the planned bytes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <numeric>

#include "engine/base/error.h"
#include "engine/parallel/offload.h"
#include "tests/harness/equal_tensors.h"
#include "tests/harness/layout_run.h"
#include "tests/harness/small_config.h"

namespace hawser::testing {
namespace offload_weights_test {

using train::Trainer;

std::string to_disk(int64_t prefetch, bool state, bool activations) {
  const auto place = [](bool away) { return away ? "disk" : "off"; };
  return fmt::format(
      R"({{"parameters": "disk", "optimizer": "{}", "activations": "{}", "folder": "{}", "prefetch": {}}})",
      place(state), place(activations), ::testing::TempDir(), prefetch);
}

void expect_bits(const Problem& problem, const Layout& layout, const std::string& offload, int steps = 3) {
  Layout away = layout;
  away.offload = offload;
  EXPECT_EQ(first_difference(run_layout(problem, layout, steps), run_layout(problem, away, steps)), "")
      << problem.precision << " " << problem.optimizer << " " << away.name();
}

TEST(OffloadWeights, ChangesNoBit) {
  for (const char* precision : {"fp32", "bf16", "bf16_pure"})
    for (const int64_t prefetch : {1, 3}) {
      Problem problem;
      problem.precision = precision, problem.layers = 5;
      problem.tied = prefetch == 1, problem.frozen = prefetch == 3, problem.like_gpt2 = prefetch == 1;
      Layout layout;
      layout.accumulation = 2;
      expect_bits(problem, layout, to_disk(prefetch, false, false));
      expect_bits(problem, layout, to_disk(prefetch, true, true));
    }
}

TEST(OffloadWeights, ChangesNoBitUnderAnyLayout) {
  std::vector<Layout> layouts(13);
  layouts[0].dp_shard = 3, layouts[0].stage = 3;
  layouts[1].dp_shard = 2, layouts[1].stage = 2, layouts[1].reduce = "per_micro_batch";
  layouts[2].tp = 2, layouts[2].recompute = R"({"policy": "full"})";
  layouts[3].cp = 2, layouts[3].dp_shard = 2, layouts[3].stage = 1, layouts[3].bucket_bytes = 3000;
  layouts[4].pp = 2, layouts[4].tp = 2, layouts[4].recompute = R"({"policy": "full"})";
  layouts[5].pp = 2, layouts[5].dp_shard = 2, layouts[5].stage = 3, layouts[5].schedule = "gpipe";
  layouts[6].dp_replicate = 2, layouts[6].dp_shard = 2, layouts[6].stage = 1;
  layouts[7].pp = 2, layouts[7].schedule = "zbv", layouts[7].dp_shard = 2;
  layouts[8].dp_shard = 2, layouts[8].gradient_type = "bf16";
  layouts[9].dp_shard = 4, layouts[9].stage = 3, layouts[9].reshard = "group", layouts[9].reshard_group = 2;
  layouts[10].dp_shard = 2, layouts[10].stage = 3, layouts[10].reshard = "keep", layouts[10].prefetch = 3;
  layouts[11] = layouts[9], layouts[12] = layouts[10];
  for (const size_t i : {11, 12}) layouts[i].quantized_weights = layouts[i].quantized_gradients = "int8";
  for (size_t i = 0; i < layouts.size(); ++i) {
    layouts[i].accumulation = 4;
    Problem problem;
    problem.layers = 4, problem.precision = i % 2 == 0 ? "bf16" : "fp32", problem.tied = i % 4 != 1;
    expect_bits(problem, layouts[i], to_disk(1 + static_cast<int64_t>(i) % 3, i % 3 == 0, i % 4 == 0));
  }
}

/// Experts whose routers' biases move, and adapters on a base in 4 bits.
TEST(OffloadWeights, ChangesNoBitOfExpertsAndAdapters) {
  Problem experts;
  experts.experts = R"({"experts": 4, "top_k": 2, "score": "sigmoid"})";
  experts.moe = R"({"balance_rate": 0.01})";
  Layout divided;
  divided.ep = 2, divided.dp_shard = 2, divided.stage = 1;
  expect_bits(experts, divided, to_disk(1, true, false));
  divided.stage = 3;
  expect_bits(experts, divided, to_disk(2, false, true));
  Problem adapter;
  adapter.width = 64, adapter.heads = 4, adapter.kv_heads = 4, adapter.mlp_width = 128;
  adapter.adapter = R"({"rank": 4, "base": "nf4"})";
  Layout shards;
  expect_bits(adapter, shards, to_disk(1, true, false));
  shards.dp_shard = 2, shards.stage = 3;
  expect_bits(adapter, shards, to_disk(1, false, false));
}

/// Evaluation, logits and generation fetch weights as training does, also in engines that only answer.
TEST(OffloadWeights, AnswersAreTheSame) {
  const testing::ScratchFolder folder;
  const std::string tokens = testing::write_tokens(folder, 20000);
  std::atomic<bool> cancel{false};
  const auto answers = [&](bool away, bool inference, int32_t ranks) {
    std::string more = ranks > 1 ? R"(, "mesh": {"dp_shard": 2}, "zero": {"stage": 1})" : "";
    if (away)
      more += fmt::format(R"(, "offload": {{"parameters": "disk", "folder": "{}"}})", folder.file("."));
    const auto trainer = Trainer::create(testing::small_config(tokens, "bf16", 1, more), inference, &cancel,
                                         ranks > 1 ? comm::make_local(ranks) : nullptr);
    if (!inference) trainer->train_step();
    const std::vector<int32_t> prompt = {1, 2, 3, 4, 5, 6, 7};
    std::string all = fmt::format("{:a}", trainer->inference().eval(nullptr, 2).loss);
    const int64_t vocabulary = trainer->ranks().config().model.vocab_size;
    std::vector<float> logits(static_cast<size_t>(7 * vocabulary));
    const train::BatchView row{1, 7, prompt.data(), nullptr};
    trainer->inference().forward(row, logits.data(), logits.size() * sizeof(float));
    for (const float value : logits) all += fmt::format(" {:a}", value);
    trainer->inference().generate({prompt.data(), 7, 20, 0.8, 10, 0.9, 3, {}}, [&](int32_t token) {
      all += fmt::format(" {}", token);
      return true;
    });
    return all;
  };
  for (const int32_t ranks : {1, 2})
    for (const bool inference : {false, true})
      EXPECT_EQ(answers(false, inference, ranks), answers(true, inference, ranks)) << ranks << inference;
}

TEST(OffloadWeights, AreSavedLoadedAndReshardedIntoOtherPlaces) {
  const testing::ScratchFolder folder;
  const std::string tokens = testing::write_tokens(folder, 20000);
  std::atomic<bool> cancel{false};
  struct Home {
    const char* precision;
    const char* members;
    int32_t ranks;
  };
  const Home homes[] = {{"fp32", "", 1},
                        {"bf16", R"(, "mesh": {"dp_shard": 3}, "zero": {"stage": 3})", 3},
                        {"bf16", R"(, "mesh": {"dp_shard": 2}, "zero": {"stage": 1})", 2},
                        {"bf16", R"(, "mesh": {"pp": 2, "dp_shard": 2}, "zero": {"stage": 2})", 4}};
  const auto make = [&](const Home& home, bool away) {
    std::string more = home.members;
    if (away)
      more += fmt::format(R"(, "offload": {{"parameters": "disk", "optimizer": "disk", "folder": "{}"}})",
                          folder.file("."));
    return Trainer::create(testing::small_config(tokens, home.precision, 2, more), false, &cancel,
                           home.ranks > 1 ? comm::make_local(home.ranks) : nullptr);
  };
  int number = 0;
  for (const Home& home : homes)
    for (const bool away : {true, false}) {
      SCOPED_TRACE(std::string(home.precision) + home.members + (away ? " from disk" : " to disk"));
      const auto saved = make(home, away);
      for (int step = 0; step < 2; ++step) saved->train_step();
      const std::string path = folder.file("saved-" + std::to_string(number++));
      saved->saves().save(path);
      const auto loaded = make(home, !away);
      loaded->loads().load(path, false);
      expect_equal_tensors(*saved, *loaded);
      for (int step = 0; step < 2; ++step) saved->train_step(), loaded->train_step();
      expect_equal_tensors(*saved, *loaded);
      const auto alone = make({home.precision, "", 1}, !away);
      alone->loads().load(path, false);
    }
}

const train::EnginePlans& plans_of(LayoutRun& run) { return run.trainer().ranks().first().plans(); }

/// The arena has a window of blocks of constant size; a micro-batch brings each block for its forward and for
/// its backward, and the embedding and an untied head once; the update brings all, and sends them back.
TEST(OffloadWeights, AreWhereThePlanSays) {
  const auto run = [](int64_t layers, bool away, auto check) {
    Problem problem;
    problem.precision = "bf16", problem.layers = layers, problem.tied = false;
    Layout layout;
    layout.accumulation = 3;
    if (away) layout.offload = to_disk(1, true, true);
    LayoutRun run(problem, layout);
    run.step();
    const plan::Plan& train = plans_of(run).train;
    EXPECT_EQ(run.trainer().ranks().first().executor().slots().high_water(), train.peak_bytes);
    EXPECT_EQ(run.trainer().ranks().first().executor().slots().live_at_peak(), train.at_peak);
    EXPECT_EQ(plans_of(run).outside, train.outside);
    check(train);
    return std::accumulate(train.at_peak.begin(), train.at_peak.end(), int64_t{0}) -
           train.at_peak[static_cast<size_t>(plan::Category::kGradients)];
  };
  int64_t weights = 0, blocks = 0, state = 0;
  const int64_t most = run(16, false, [&](const plan::Plan& train) {
    for (const plan::Slot& slot : train.slots) {
      if (!slot.persistent) continue;
      if (slot.category == plan::Category::kOptimizer) state += slot.bytes;
      if (slot.role == plan::Role::kWeights) weights += slot.bytes;
      if (slot.role == plan::Role::kWeights && slot.block >= 1 && slot.block <= 16) blocks += slot.bytes;
    }
  });
  const int64_t window = run(16, true, [&](const plan::Plan& train) {
    int64_t activations = 0;
    for (const plan::Instruction& n : train.instructions)
      if (n.lane == plan::Lane::kFetch) activations += moved_bytes(train, n);
    EXPECT_EQ(parallel::fetched_bytes(train, plan::Space::kDisk) - activations,
              3 * (weights + blocks) + weights + state);
    EXPECT_EQ(parallel::offloaded_bytes(train, plan::Space::kDisk) - activations, weights + state);
  });
  EXPECT_EQ(run(12, true, [](const plan::Plan&) {}), window);
  EXPECT_LT(3 * window, most);
}

TEST(OffloadWeights, CannotBeLent) {
  const testing::ScratchFolder folder;
  Problem problem;
  LayoutRun(problem, {}).trainer().saves().save(folder.file("model"));
  problem.from = folder.file("model");
  Layout away;
  away.offload = to_disk(1, false, false);
  std::atomic<bool> cancel{false};
  const auto base =
      Trainer::create(config::ConfigTree::from_json(layout_config(problem, away)), true, &cancel);
  problem.adapter = R"({"rank": 2})";
  try {
    LayoutRun borrower(problem, {}, nullptr, base.get());
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("/offload/parameters"), std::string::npos) << error.message();
  }
}

}  // namespace offload_weights_test
}  // namespace hawser::testing
