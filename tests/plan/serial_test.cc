// The serial schedule: what is done in which order, on which operands.
#include "engine/plan/serial.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <string>

namespace hawser::plan {
namespace {

Sizes small_sizes(int64_t layers, bool tied) {
  Sizes s;
  s.weights = 1000, s.gradients = 2000, s.moment1 = 2000, s.moment2 = 2000;
  s.head_gradient = tied ? 640 : 0;
  s.scalars = 32, s.partials = 64;
  s.residual = 256, s.batch = 128, s.losses = 64;
  s.embedding_forward = {0, 0, 0}, s.embedding_backward = {0, 0, 0};
  s.block_forward.assign(static_cast<size_t>(layers), {100, 700, 2e9});
  s.block_backward.assign(static_cast<size_t>(layers), {200, 700, 4e9});
  s.loss = {300, 0, 3e9}, s.loss_eval = {150, 0, 1e9}, s.logits = {150, 0, 1e9};
  s.generate_residual = 64, s.generate_batch = 64, s.generate_workspace = 96, s.kv_cache = 512;
  return s;
}

/// One line each: op block micro-batch: reads -> writes.
std::string text_of(const Plan& plan) {
  const auto names = [&](const std::vector<SlotId>& ids) {
    std::string text;
    for (const SlotId id : ids) text += " " + plan.slots[static_cast<size_t>(id)].name;
    return text;
  };
  std::ostringstream text;
  for (size_t i = 0; i < plan.instructions.size(); ++i) {
    const Instruction& n = plan.instructions[i];
    if (i == plan.commit) text << "durable\n";
    text << op_name(n.op) << " " << n.block << " " << n.micro_batch << ":" << names(n.reads) << " ->"
         << names(n.writes) << "\n";
  }
  return text.str();
}

TEST(SerialPlan, TrainsTwoMicroBatchesOfTwoBlocksInThisOrder) {
  EXPECT_EQ(text_of(train_plan(small_sizes(2, true), 2)),
            "LOAD_MICRO_BATCH -1 0: -> batch.0\n"
            "LOAD_MICRO_BATCH -1 1: -> batch.1\n"
            "COUNT_TOKENS -1 -1: batch.0 batch.1 -> scalars\n"
            "FORWARD 0 0: batch.0 weights -> x1.0\n"
            "FORWARD 1 0: x1.0 batch.0 weights -> x2.0 saved1.0\n"
            "FORWARD 2 0: x2.0 batch.0 weights -> x3.0 saved2.0\n"
            "LOSS 3 0: x3.0 batch.0 scalars weights -> losses.0 dx.0 gradients head_gradient\n"
            "BACKWARD 2 0: x2.0 saved2.0 batch.0 weights -> dx.0 gradients\n"
            "BACKWARD 1 0: x1.0 saved1.0 batch.0 weights -> dx.0 gradients\n"
            "BACKWARD 0 0: batch.0 -> dx.0 gradients\n"
            "FORWARD 0 1: batch.1 weights -> x1.1\n"
            "FORWARD 1 1: x1.1 batch.1 weights -> x2.1 saved1.1\n"
            "FORWARD 2 1: x2.1 batch.1 weights -> x3.1 saved2.1\n"
            "LOSS 3 1: x3.1 batch.1 scalars weights -> losses.1 dx.1 gradients head_gradient\n"
            "BACKWARD 2 1: x2.1 saved2.1 batch.1 weights -> dx.1 gradients\n"
            "BACKWARD 1 1: x1.1 saved1.1 batch.1 weights -> dx.1 gradients\n"
            "BACKWARD 0 1: batch.1 -> dx.1 gradients\n"
            "REDUCE_GRAD 0 -1: head_gradient -> gradients\n"
            "GRAD_NORM -1 -1: gradients -> partials\n"
            "durable\n"
            "OPTIMIZER_STEP -1 -1: gradients scalars -> weights moment1 moment2\n");
}

TEST(SerialPlan, WithoutATiedHeadNothingIsReduced) {
  for (const Instruction& n : train_plan(small_sizes(1, false), 1).instructions)
    EXPECT_NE(n.op, Op::kReduceGrad);
}

TEST(SerialPlan, EvaluatesInThisOrder) {
  EXPECT_EQ(text_of(eval_plan(small_sizes(2, true))),
            "LOAD_MICRO_BATCH -1 0: -> batch.0\n"
            "FORWARD 0 0: batch.0 weights -> x1.0\n"
            "FORWARD 1 0: x1.0 batch.0 weights -> x2.0 saved1.0\n"
            "FORWARD 2 0: x2.0 batch.0 weights -> x3.0 saved2.0\n"
            "EVAL_LOSS 3 0: x3.0 batch.0 weights -> losses.0\n");
}

TEST(SerialPlan, ReturnsLogitsInThisOrder) {
  EXPECT_EQ(text_of(logits_plan(small_sizes(1, true))),
            "LOAD_MICRO_BATCH -1 0: -> batch.0\n"
            "FORWARD 0 0: batch.0 weights -> x1.0\n"
            "FORWARD 1 0: x1.0 batch.0 weights -> x2.0 saved1.0\n"
            "LOGITS 2 0: x2.0 batch.0 weights ->\n");
}

TEST(SerialPlan, GeneratesThroughCachesThatLiveOverTheWholePlan) {
  const Plan plan = generate_plan(small_sizes(2, true));
  EXPECT_EQ(text_of(plan),
            "LOAD_MICRO_BATCH -1 0: -> batch.0 x kv1 kv2\n"
            "FORWARD 0 0: batch.0 weights -> x\n"
            "FORWARD 1 0: x batch.0 weights kv1 -> x kv1\n"
            "FORWARD 2 0: x batch.0 weights kv2 -> x kv2\n"
            "LOGITS 3 0: x weights batch.0 kv1 kv2 ->\n");
  for (const char* cache : {"kv1", "kv2"}) {
    const Slot& slot = plan.slots[static_cast<size_t>(find_slot(plan, cache))];
    EXPECT_EQ(slot.first, 0);
    EXPECT_EQ(slot.last, static_cast<int32_t>(plan.instructions.size()) - 1);
  }
}

std::vector<Plan> all_plans(int64_t layers, bool tied, int32_t micro_batches) {
  const Sizes s = small_sizes(layers, tied);
  return {train_plan(s, micro_batches), eval_plan(s), logits_plan(s), generate_plan(s)};
}

TEST(SerialPlan, NothingIsReadThatNobodyWrote) {
  for (const int64_t layers : {1, 2, 5}) {
    for (const bool tied : {true, false}) {
      for (const Plan& plan : all_plans(layers, tied, 3)) {
        std::set<SlotId> written;
        for (size_t s = 0; s < plan.slots.size(); ++s)
          if (plan.slots[s].persistent) written.insert(static_cast<SlotId>(s));
        for (const Instruction& n : plan.instructions) {
          for (const SlotId id : n.reads)
            EXPECT_TRUE(written.count(id)) << plan.name << ": " << plan.slots[static_cast<size_t>(id)].name;
          written.insert(n.writes.begin(), n.writes.end());
        }
      }
    }
  }
}

TEST(SerialPlan, ScratchBelongsToOneInstructionAlone) {
  for (const Plan& plan : all_plans(3, true, 2)) {
    std::map<SlotId, int> uses;
    for (const Instruction& n : plan.instructions) {
      if (n.scratch >= 0) ++uses[n.scratch];
      for (const SlotId id : n.reads)
        EXPECT_NE(plan.slots[static_cast<size_t>(id)].category, Category::kWorkspace);
      for (const SlotId id : n.writes)
        EXPECT_NE(plan.slots[static_cast<size_t>(id)].category, Category::kWorkspace);
    }
    for (const auto& [id, count] : uses) EXPECT_EQ(count, 1) << plan.name;
  }
}

TEST(SerialPlan, WhatAForwardSavesLivesUntilItsBackwardAndNoLonger) {
  const Plan plan = train_plan(small_sizes(4, true), 2);
  for (size_t i = 0; i < plan.instructions.size(); ++i) {
    const Instruction& n = plan.instructions[i];
    if (n.op != Op::kBackward || n.block == 0) continue;
    const Slot& saved = plan.slots[static_cast<size_t>(n.reads[1])];
    EXPECT_EQ(saved.last, static_cast<int32_t>(i)) << saved.name;
    const Instruction& forward = plan.instructions[static_cast<size_t>(saved.first)];
    EXPECT_TRUE(forward.op == Op::kForward && forward.block == n.block &&
                forward.micro_batch == n.micro_batch);
  }
}

TEST(SerialPlan, AnEvaluationKeepsNothingFromBlockToBlock) {
  const Plan plan = eval_plan(small_sizes(6, true));
  int64_t widest = 0;
  for (const Slot& slot : plan.slots) {
    if (!slot.name.starts_with("saved")) continue;
    EXPECT_EQ(slot.first, slot.last) << slot.name;
    widest = std::max(widest, slot.bytes);
  }
  EXPECT_EQ(widest, 700);
  EXPECT_EQ(eval_plan(small_sizes(60, true)).peak_bytes, plan.peak_bytes) << "depth must not cost memory";
}

TEST(SerialPlan, AccumulationCostsNoActivationMemory) {
  const auto activations = [](const Plan& plan) {
    return plan.at_peak[static_cast<size_t>(Category::kActivations)];
  };
  const Plan one = train_plan(small_sizes(3, true), 1), four = train_plan(small_sizes(3, true), 4);
  EXPECT_EQ(activations(one), activations(four));
  EXPECT_LE(four.peak_bytes, one.peak_bytes + 3 * 128) << "only the staged batches may be more";
}

TEST(SerialPlan, PersistentSlotsLieAtTheSamePlacesInEveryPlan) {
  const std::vector<Plan> plans = all_plans(2, true, 2);
  for (const Plan& plan : plans) {
    EXPECT_EQ(plan.persistent_bytes, plans[0].persistent_bytes);
    for (const Slot& slot : plans[0].slots) {
      if (!slot.persistent) continue;
      const SlotId id = find_slot(plan, slot.name);
      ASSERT_GE(id, 0) << plan.name << " " << slot.name;
      EXPECT_EQ(plan.slots[static_cast<size_t>(id)].offset, slot.offset) << plan.name << " " << slot.name;
    }
  }
}

TEST(SerialPlan, PrintsOneLineForEachInstruction) {
  const Plan plan = train_plan(small_sizes(1, true), 1);
  const std::string text = format_instructions(plan);
  // A heading of two lines, and the line where the durable part begins.
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), static_cast<int64_t>(plan.instructions.size()) + 3)
      << text;
  EXPECT_NE(text.find("FORWARD              1    0     2.000  x1.0, batch.0, weights -> x2.0, saved1.0\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("durable from here"), std::string::npos);
  const std::string memory = format_memory(plan);
  EXPECT_NE(memory.find(std::to_string(plan.peak_bytes)), std::string::npos) << memory;
}

}  // namespace
}  // namespace hawser::plan
