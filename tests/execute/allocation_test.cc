// Tests that steps allocate nothing: after the first step, 20 steps call neither malloc nor operator new nor
// mmap on any thread, on one rank and on two under DDP and ZeRO-3.
#include <gtest/gtest.h>

#include "tests/harness/small_config.h"

extern std::atomic<long> g_allocations;

namespace hawser {
namespace allocation_test {

TEST(Allocation, TheCounterCounts) {
  const long before = g_allocations;
  std::vector<int> heap(1000);
  ASSERT_NE(heap.data(), nullptr);
  EXPECT_GT(g_allocations, before);
}

TEST(Allocation, StepsAllocateNothing) {
  const testing::ScratchFolder folder;
  const std::string tokens = testing::write_tokens(folder, 20000);
  std::atomic<bool> cancel{false};
  for (const char* precision : {"fp32", "bf16", "bf16_pure"}) {
    config::ConfigTree config =
        testing::small_config(tokens, precision, 2, R"(, "guard": {"outlier": "skip"})");
    config.set("/telemetry/tensorboard", folder.file("events"));
    const auto trainer = train::Trainer::create(config, false, &cancel);
    trainer->train_step();
    const long before = g_allocations;
    for (int i = 0; i < 20; ++i) trainer->train_step();
    EXPECT_EQ(g_allocations - before, 0) << precision;
    trainer->saves().save_async(folder.file(std::string("checkpoint-") + precision))->wait(-1);
    const long after = g_allocations;
    for (int i = 0; i < 20; ++i) trainer->train_step();
    EXPECT_EQ(g_allocations - after, 0) << precision << ", after an asynchronous save";
  }
}

TEST(Allocation, StepsOverABaseInNf4AllocateNothing) {
  const testing::ScratchFolder folder;
  const std::string tokens = testing::write_tokens(folder, 20000);
  std::atomic<bool> cancel{false};
  const auto trainer = train::Trainer::create(
      testing::small_config(tokens, "bf16", 2, R"(, "adapter": {"rank": 2, "base": "nf4", "dora": true})"),
      false, &cancel);
  trainer->train_step();
  const long before = g_allocations;
  for (int i = 0; i < 20; ++i) trainer->train_step();
  EXPECT_EQ(g_allocations - before, 0);
}

TEST(Allocation, StepsOfOtherOptimizersAllocateNothing) {
  const testing::ScratchFolder folder;
  const std::string tokens = testing::write_tokens(folder, 20000);
  std::atomic<bool> cancel{false};
  for (const auto& [kind, precision] : {std::pair{"muon", "fp32"}, {"muon", "bf16"}, {"adamw8", "bf16"}}) {
    config::ConfigTree config = testing::small_config(tokens, precision, 2);
    config.set("/optimizer/kind", kind);
    const auto trainer = train::Trainer::create(config, false, &cancel);
    trainer->train_step();
    const long before = g_allocations;
    for (int i = 0; i < 20; ++i) trainer->train_step();
    EXPECT_EQ(g_allocations - before, 0) << kind << " " << precision;
  }
}

TEST(Allocation, StepsThatOffloadAllocateNothing) {
  const testing::ScratchFolder folder;
  const std::string tokens = testing::write_tokens(folder, 20000);
  std::atomic<bool> cancel{false};
  const std::string more =
      R"(, "offload": {"activations": "disk", "optimizer": "disk", "parameters": "disk", "folder": ")" +
      folder.file(".") + R"("})";
  config::ConfigTree config = testing::small_config(tokens, "fp32", 2, more);
  config.set("/model/layers", "8");
  const auto trainer = train::Trainer::create(config, false, &cancel);
  ASSERT_GT(trainer->ranks().first().plans().outside[static_cast<size_t>(plan::Space::kDisk)], 0);
  trainer->train_step();
  const long before = g_allocations;
  for (int i = 0; i < 20; ++i) trainer->train_step();
  EXPECT_EQ(g_allocations - before, 0);
}

/// Pushed batches reuse their memory too.
TEST(Allocation, StepsOnPairsAllocateNothing) {
  std::atomic<bool> cancel{false};
  const auto trainer = train::Trainer::create(
      config::ConfigTree::from_json(R"({"objective": {"kind": "dpo"}, "cpu": {"threads": 2},
        "model": {"vocab_size": 20, "context": 8, "layers": 1, "width": 16, "heads": 2},
        "batch": {"micro_batch": 2, "grad_accum_steps": 2, "sequence": 8}})"),
      false, &cancel);
  std::vector<int32_t> tokens(32);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i % 19);
  const std::vector<float> references(4, -20.0f);
  const train::BatchView batch{4, 8, tokens.data(), tokens.data(), nullptr, nullptr, references.data()};
  const auto step = [&] { trainer->push(batch), trainer->train_step(); };
  step();
  const long before = g_allocations;
  for (int i = 0; i < 20; ++i) step();
  EXPECT_EQ(g_allocations - before, 0);
}

TEST(Allocation, StepsOfManyRanksAllocateNothing) {
  const testing::ScratchFolder folder;
  const std::string tokens = testing::write_tokens(folder, 20000);
  std::atomic<bool> cancel{false};
  for (const char* zero : {R"("stage": 0)", R"("stage": 3)", R"("stage": 3, "reduce": "per_micro_batch")"})
    for (const char* precision : {"fp32", "bf16", "bf16_pure"})
      for (const bool trace : {false, true}) {
        const std::string more = std::string(R"(, "mesh": {"dp_shard": 2}, "zero": {)") + zero + "}";
        const auto trainer = train::Trainer::create(testing::small_config(tokens, precision, 4, more), false,
                                                    &cancel, comm::make_local(2));
        trainer->traces().set(trace, trace);
        trainer->train_step();
        const long before = g_allocations;
        for (int i = 0; i < 20; ++i) trainer->train_step();
        EXPECT_EQ(g_allocations - before, 0) << zero << " " << precision << (trace ? ", traced" : "");
      }
}

TEST(Allocation, StepsThatDivideExpertsAllocateNothing) {
  const testing::ScratchFolder folder;
  const std::string tokens = testing::write_tokens(folder, 20000);
  std::atomic<bool> cancel{false};
  config::ConfigTree config =
      testing::small_config(tokens, "bf16", 4, R"(, "mesh": {"dp_shard": 2, "ep": 2}, "zero": {"stage": 3})");
  config.set("/model/moe", R"({"experts": 4, "top_k": 2, "width": 16})");
  config.set("/model/bias", R"({"up": false, "down": false})");
  config.set("/moe/rows_factor", "0.4");  // several rounds
  const auto trainer = train::Trainer::create(config, false, &cancel, comm::make_local(2));
  trainer->train_step();
  const long before = g_allocations;
  for (int i = 0; i < 20; ++i) trainer->train_step();
  EXPECT_EQ(g_allocations - before, 0);
}

}  // namespace allocation_test
}  // namespace hawser
