// State offload test: masters and moments that are on disk between steps change no bit, under any layout,
// over saves and loads into engines that keep them elsewhere; the arena and the file have the planned bytes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "engine/base/error.h"
#include "engine/parallel/offload.h"
#include "engine/parallel/offload_state.h"
#include "tests/harness/equal_tensors.h"
#include "tests/harness/layout_run.h"
#include "tests/harness/small_config.h"
#include "tests/plan/plan_text.h"

namespace hawser::testing {
namespace offload_state_test {

using train::Trainer;

constexpr size_t kDisk = static_cast<size_t>(plan::Space::kDisk);

std::string to_disk(int64_t prefetch, bool activations) {
  return fmt::format(R"({{"optimizer": "disk", "activations": "{}", "folder": "{}", "prefetch": {}}})",
                     activations ? "disk" : "off", ::testing::TempDir(), prefetch);
}

void expect_bits(const Problem& problem, const Layout& layout, int64_t prefetch, bool activations,
                 int steps = 3) {
  Layout away = layout;
  away.offload = to_disk(prefetch, activations);
  EXPECT_EQ(first_difference(run_layout(problem, layout, steps), run_layout(problem, away, steps)), "")
      << problem.precision << " " << problem.optimizer << " " << away.name();
}

TEST(OffloadState, ChangesNoBit) {
  for (const char* precision : {"fp32", "bf16", "bf16_pure"})
    for (const char* optimizer : {"adamw", "sgd"})
      for (const int64_t prefetch : {1, 3}) {
        Problem problem;
        problem.precision = precision, problem.optimizer = optimizer, problem.layers = 5;
        problem.tied = prefetch == 1, problem.frozen = prefetch == 3, problem.like_gpt2 = prefetch == 1;
        Layout layout;
        layout.accumulation = 2;
        expect_bits(problem, layout, prefetch, prefetch == 3);
      }
}

/// The momentum of a matrix is fetched twice in a step: for MOMENTUM, and with its block's other moments.
TEST(OffloadState, ChangesNoBitOfMuon) {
  std::vector<Layout> layouts(6);
  layouts[1].dp_shard = 4, layouts[1].stage = 3;
  layouts[2].dp_shard = 2, layouts[2].stage = 1, layouts[2].tp = 2;
  layouts[3].pp = 2, layouts[3].dp_shard = 2, layouts[3].stage = 2, layouts[3].accumulation = 4;
  layouts[4].ep = 2, layouts[4].dp_shard = 2, layouts[4].stage = 1;
  layouts[5].dp_replicate = 2, layouts[5].dp_shard = 2, layouts[5].stage = 3;
  for (size_t i = 0; i < layouts.size(); ++i) {
    Problem problem;
    problem.optimizer = "muon", problem.layers = 4, problem.like_gpt2 = i % 2 == 0;
    problem.precision = i % 2 == 0 ? "bf16" : "fp32", problem.muon_heads = i % 3 == 1;
    if (layouts[i].ep > 1) problem.experts = R"({"experts": 4, "top_k": 2})";
    expect_bits(problem, layouts[i], 1 + static_cast<int64_t>(i) % 3, i % 3 == 0);
  }
}

/// With one matrix, its MOMENTUM and the OPTIMIZER_STEP of its block are closer than `prefetch` updates.
TEST(OffloadState, FetchesMomentsAfterTheirMomentumHasGoneBack) {
  Problem problem;
  problem.optimizer = "adamw", problem.rules = R"([{"of": "embedding.*", "kind": "muon"}])";
  for (const int64_t prefetch : {1, 2, 5}) expect_bits(problem, {}, prefetch, false);
}

TEST(OffloadState, ChangesNoBitInTwentySteps) {
  Problem problem;
  problem.precision = "bf16", problem.layers = 3;
  expect_bits(problem, {}, 2, true, 20);
}

TEST(OffloadState, ChangesNoBitUnderAnyLayout) {
  std::vector<Layout> layouts(10);
  layouts[0].dp_shard = 3, layouts[0].stage = 3;
  layouts[9].dp_shard = 2, layouts[9].stage = 3, layouts[9].quantized_weights = "int8";
  layouts[9].quantized_gradients = "int4";
  layouts[1].dp_shard = 2, layouts[1].stage = 2, layouts[1].reduce = "per_micro_batch";
  layouts[2].tp = 2, layouts[2].recompute = R"({"policy": "full"})";
  layouts[3].cp = 2, layouts[3].dp_shard = 2, layouts[3].stage = 1, layouts[3].bucket_bytes = 3000;
  layouts[4].pp = 2, layouts[4].tp = 2, layouts[4].recompute = R"({"policy": "full"})";
  layouts[5].pp = 2, layouts[5].dp_shard = 2, layouts[5].stage = 3, layouts[5].schedule = "gpipe";
  layouts[6].dp_replicate = 2, layouts[6].dp_shard = 2, layouts[6].stage = 1;
  layouts[7].pp = 2, layouts[7].schedule = "zbv", layouts[7].dp_shard = 2;
  layouts[8].dp_shard = 2, layouts[8].gradient_type = "bf16";
  for (size_t i = 0; i < layouts.size(); ++i) {
    layouts[i].accumulation = 4;
    Problem problem;
    problem.layers = 4, problem.precision = i % 2 == 0 ? "bf16" : "fp32", problem.tied = i != 5;
    expect_bits(problem, layouts[i], 1 + static_cast<int64_t>(i) % 3, i % 3 == 0);
  }
  Problem experts;
  experts.experts = R"({"experts": 4, "top_k": 2})", experts.moe = R"({"aux_loss": 0.01})";
  Layout divided;
  divided.ep = 2, divided.dp_shard = 2, divided.stage = 1;
  expect_bits(experts, divided, 1, false);
}

const train::EnginePlans& plans_of(LayoutRun& run) { return run.trainer().ranks().first().plans(); }

/// The arena loses the state, except for a window of it that reuses the memory of activations; the file has
/// 12 bytes for each parameter that products read, and 8 for each other, in whole pages for each block.
TEST(OffloadState, IsWhereThePlanSays) {
  Problem problem;
  problem.precision = "bf16", problem.layers = 12;
  Layout layout, away;
  away.offload = to_disk(1, false);
  LayoutRun kept(problem, layout), moved(problem, away);
  moved.step();
  const plan::Plan &with = plans_of(kept).train, &without = plans_of(moved).train;
  int64_t state = 0, pages = 0;
  for (const plan::Slot& slot : with.slots)
    if (slot.persistent && slot.category == plan::Category::kOptimizer)
      state += slot.bytes, pages += parallel::whole_pages(slot.bytes);
  int64_t products = 0, others = 0;  // with the padding of their groups
  const train::Rank& rank = moved.trainer().ranks().first();
  for (size_t g = 0; g < rank.table().groups().size(); ++g)
    (rank.layout().group(static_cast<int32_t>(g)).has_master ? products : others) +=
        rank.layout().group(static_cast<int32_t>(g)).elements;
  EXPECT_GT(products, others);
  EXPECT_EQ(state, 12 * products + 8 * others);
  EXPECT_EQ(with.persistent_bytes - without.persistent_bytes, state);
  EXPECT_EQ(plans_of(moved).outside[kDisk], pages);
  EXPECT_EQ(plan::persistent_bytes(without, plan::Space::kDisk, plan::Category::kOptimizer), pages);
  EXPECT_EQ(parallel::offloaded_bytes(without, plan::Space::kDisk), state);
  EXPECT_EQ(parallel::fetched_bytes(without, plan::Space::kDisk), state);
  EXPECT_LE(without.peak_bytes, with.peak_bytes - state / 2);
  EXPECT_EQ(rank.executor().slots().high_water(), without.peak_bytes);
  EXPECT_EQ(rank.executor().slots().live_at_peak(), without.at_peak);
}

/// Each update waits until its state has come; state is fetched no earlier than it was written.
TEST(OffloadState, WaitsFollowFromBytes) {
  for (const int64_t prefetch : {1, 2, 9}) {
    const plan::Sizes sizes = small_sizes(6, false);
    plan::Plan plan =
        plan::train_plan(sizes, plan::whole_model(sizes.head() + 1, 1), 1, plan::Accumulation::kInPlace);
    parallel::offload_optimizer_state(&plan, plan::Space::kDisk, prefetch);
    plan::finish(&plan);
    int64_t moves = 0, updates = 0;
    plan::LaneMarks done;
    std::vector<int32_t> fetched(plan.slots.size(), -1);
    for (size_t i = 0; i < plan.instructions.size(); ++i) {
      const plan::Instruction& n = plan.instructions[i];
      done.raise_to(n.waits_for);
      moves += plan::is_move(n.op), updates += n.op == plan::Op::kOptimizerStep;
      if (plan::is_move(n.op)) {
        EXPECT_GE(i, plan.commit) << "nothing durable leaves its place before the commit";
      }
      for (const plan::Use& use : n.uses) {
        const int32_t from = fetched[static_cast<size_t>(use.slot)];
        if (from >= 0 && n.op == plan::Op::kOptimizerStep) {
          EXPECT_GE(done[plan::Lane::kFetchState], from) << "instruction " << i;
        }
        if (n.op == plan::Op::kFetch && use.written)
          fetched[static_cast<size_t>(use.slot)] = static_cast<int32_t>(i);
      }
    }
    EXPECT_EQ(updates, 8);
    EXPECT_EQ(moves, 2 * 2 * updates);  // two moments each, out and back
  }
}

struct Home {
  const char* precision;
  const char* members;  // members of the config, as JSON
  int32_t ranks = 1;
};

std::unique_ptr<Trainer> trainer_in(const Home& home, const std::string& tokens, const std::string& folder,
                                    bool away, std::atomic<bool>* cancel) {
  std::string more = home.members;
  if (away) more += fmt::format(R"(, "offload": {{"optimizer": "disk", "folder": "{}"}})", folder);
  return Trainer::create(testing::small_config(tokens, home.precision, 1, more), false, cancel,
                         home.ranks > 1 ? comm::make_local(home.ranks) : nullptr);
}

TEST(OffloadState, IsSavedLoadedAndReshardedIntoOtherPlaces) {
  const testing::ScratchFolder folder;
  const std::string tokens = testing::write_tokens(folder, 20000);
  std::atomic<bool> cancel{false};
  const Home homes[] = {{"fp32", ""},
                        {"bf16", ""},
                        {"bf16", R"(, "mesh": {"dp_shard": 3}, "zero": {"stage": 3})", 3},
                        {"bf16_pure", R"(, "mesh": {"tp": 2, "dp_shard": 2}, "zero": {"stage": 1})", 4}};
  int number = 0;
  for (const Home& home : homes)
    for (const bool away : {true, false}) {
      SCOPED_TRACE(std::string(home.precision) + home.members + (away ? " from disk" : " to disk"));
      const auto saved = trainer_in(home, tokens, folder.file("."), away, &cancel);
      for (int step = 0; step < 2; ++step) saved->train_step();
      const std::string path = folder.file("saved-" + std::to_string(number++));
      if (home.ranks == 1)
        saved->saves().save_async(path), saved->saves().saver().wait();
      else
        saved->saves().save(path);
      const auto alone = trainer_in({home.precision, ""}, tokens, folder.file("."), !away, &cancel);
      alone->loads().load(path, false);
      expect_equal_tensors(*saved, *alone);
      const auto loaded = trainer_in(home, tokens, folder.file("."), !away, &cancel);
      loaded->loads().load(path, false);
      expect_equal_tensors(*saved, *loaded);
      for (int step = 0; step < 2; ++step) saved->train_step(), loaded->train_step();
      expect_equal_tensors(*saved, *loaded);
    }
}

/// A tensor of more bytes than a save reads at a time.
TEST(OffloadState, SavesPiecesOfManyChunks) {
  const testing::ScratchFolder folder;
  Problem problem;
  problem.layers = 1, problem.width = 256, problem.heads = 4, problem.mlp_width = 4200, problem.dropout = 0;
  Layout away;
  away.offload = to_disk(1, false);
  LayoutRun moved(problem, away), kept(problem, {});
  moved.step();
  moved.trainer().saves().save(folder.file("saved"));
  kept.trainer().loads().load(folder.file("saved"), false);
  expect_equal_tensors(moved.trainer(), kept.trainer());
}

TEST(OffloadState, ViewsOfItAreRefused) {
  Problem problem;
  problem.precision = "bf16";
  Layout away;
  away.offload = to_disk(1, false);
  LayoutRun run(problem, away);
  try {
    run.trainer().tensors().location(train::TensorKind::kMoment1, "embedding.tokens.weight");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kUnimplemented);
    EXPECT_NE(error.message().find("(/offload)"), std::string::npos) << error.message();
  }
}

/// Any range of bytes, in pages and over their borders, is read as it was written, and no other byte changes.
TEST(OffloadFile, ReadsAndWritesAnyRange) {
  constexpr int64_t kBytes = 700 * 4096;
  parallel::OffloadFile file(::testing::TempDir(), kBytes);
  std::vector<char> expected(kBytes, 0), found(kBytes);
  uint32_t random = 12345;
  const auto below = [&](int64_t n) {
    random = random * 1664525u + 1013904223u;
    return static_cast<int64_t>(random >> 8) % n;
  };
  for (int i = 0; i < 60; ++i) {
    const int64_t at = below(kBytes), most = i % 3 == 0 ? kBytes - at : std::min<int64_t>(kBytes - at, 9000);
    std::vector<char> bytes(static_cast<size_t>(1 + below(most)));
    for (char& b : bytes) b = static_cast<char>(below(256));
    file.write(at, bytes.data(), std::ssize(bytes));
    std::copy(bytes.begin(), bytes.end(), expected.begin() + at);
    std::vector<char> back(bytes.size());
    file.read(at, back.data(), std::ssize(back));
    EXPECT_EQ(back, bytes);
  }
  file.read(0, found.data(), kBytes);
  EXPECT_TRUE(found == expected);
}

}  // namespace offload_state_test
}  // namespace hawser::testing
