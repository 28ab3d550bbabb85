// Tests the serial schedule: the order of its instructions, and their operands.
#include "engine/plan/serial.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "tests/plan/plan_text.h"

namespace hawser::plan {
namespace serial_test {

using testing::finished;
using testing::small_sizes;
using testing::text_of;

TEST(SerialPlan, AddsTwoMicroBatchesInPlaceInThisOrder) {
  EXPECT_EQ(text_of(train_plan(small_sizes(2, true), 2, Accumulation::kInPlace)),
            "LOAD_MICRO_BATCH -1 0: -> batch.0\n"
            "LOAD_MICRO_BATCH -1 1: -> batch.1\n"
            "COUNT_TOKENS -1 -1: batch.0 batch.1 -> scalars\n"
            "FORWARD 0 0: batch.0 weights.0 -> x1.0\n"
            "FORWARD 1 0: x1.0 batch.0 weights.1 -> x2.0 saved1.0\n"
            "FORWARD 2 0: x2.0 batch.0 weights.2 -> x3.0 saved2.0\n"
            "LOSS 3 0: x3.0 batch.0 scalars weights.3 weights.0 -> losses.0 dx.0 gradients.3 gradients.0\n"
            "BACKWARD 2 0: x2.0 saved2.0 batch.0 weights.2 -> dx.0 gradients.2\n"
            "BACKWARD 1 0: x1.0 saved1.0 batch.0 weights.1 -> dx.0 gradients.1\n"
            "BACKWARD 0 0: batch.0 -> dx.0 gradients.0 lookup_gradient\n"
            "FORWARD 0 1: batch.1 weights.0 -> x1.1\n"
            "FORWARD 1 1: x1.1 batch.1 weights.1 -> x2.1 saved1.1\n"
            "FORWARD 2 1: x2.1 batch.1 weights.2 -> x3.1 saved2.1\n"
            "LOSS 3 1: x3.1 batch.1 scalars weights.3 weights.0 +> losses.1 dx.1 gradients.3 gradients.0\n"
            "BACKWARD 2 1: x2.1 saved2.1 batch.1 weights.2 +> dx.1 gradients.2\n"
            "BACKWARD 1 1: x1.1 saved1.1 batch.1 weights.1 +> dx.1 gradients.1\n"
            "BACKWARD 0 1: batch.1 +> dx.1 gradients.0 lookup_gradient\n"
            "JOIN_HEAD_GRAD 0 1: lookup_gradient +> gradients.0\n"
            "GRAD_NORM 3 -1: gradients.3 -> norm\n"
            "GRAD_NORM 2 -1: gradients.2 -> norm\n"
            "GRAD_NORM 1 -1: gradients.1 -> norm\n"
            "GRAD_NORM 0 -1: gradients.0 -> norm\n"
            "GRAD_NORM -1 -1: norm -> norm\n"
            "durable\n"
            "OPTIMIZER_STEP 0 -1: gradients.0 scalars -> weights.0 moment1.0 moment2.0\n"
            "OPTIMIZER_STEP 1 -1: gradients.1 scalars -> weights.1 moment1.1 moment2.1\n"
            "OPTIMIZER_STEP 2 -1: gradients.2 scalars -> weights.2 moment1.2 moment2.2\n"
            "OPTIMIZER_STEP 3 -1: gradients.3 scalars -> weights.3 moment1.3 moment2.3\n");
}

TEST(SerialPlan, WritesFreshGradientsForEachMicroBatchInThisOrder) {
  EXPECT_EQ(text_of(train_plan(small_sizes(1, true), 2, Accumulation::kFresh)),
            "LOAD_MICRO_BATCH -1 0: -> batch.0\n"
            "LOAD_MICRO_BATCH -1 1: -> batch.1\n"
            "COUNT_TOKENS -1 -1: batch.0 batch.1 -> scalars\n"
            "FORWARD 0 0: batch.0 weights.0 -> x1.0\n"
            "FORWARD 1 0: x1.0 batch.0 weights.1 -> x2.0 saved1.0\n"
            "LOSS 2 0: x2.0 batch.0 scalars weights.2 weights.0 -> losses.0 dx.0 gradients.2 gradients.0\n"
            "BACKWARD 1 0: x1.0 saved1.0 batch.0 weights.1 -> dx.0 gradients.1\n"
            "BACKWARD 0 0: batch.0 -> dx.0 gradients.0 lookup_gradient\n"
            "JOIN_HEAD_GRAD 0 0: lookup_gradient +> gradients.0\n"
            "FORWARD 0 1: batch.1 weights.0 -> x1.1\n"
            "FORWARD 1 1: x1.1 batch.1 weights.1 -> x2.1 saved1.1\n"
            "LOSS 2 1: x2.1 batch.1 scalars weights.2 weights.0 -> losses.1 dx.1 gradients.2 gradients.0\n"
            "BACKWARD 1 1: x1.1 saved1.1 batch.1 weights.1 -> dx.1 gradients.1\n"
            "BACKWARD 0 1: batch.1 -> dx.1 gradients.0 lookup_gradient\n"
            "JOIN_HEAD_GRAD 0 1: lookup_gradient +> gradients.0\n"
            "GRAD_NORM 2 -1: gradients.2 -> norm\n"
            "GRAD_NORM 1 -1: gradients.1 -> norm\n"
            "GRAD_NORM 0 -1: gradients.0 -> norm\n"
            "GRAD_NORM -1 -1: norm -> norm\n"
            "durable\n"
            "OPTIMIZER_STEP 0 -1: gradients.0 scalars -> weights.0 moment1.0 moment2.0\n"
            "OPTIMIZER_STEP 1 -1: gradients.1 scalars -> weights.1 moment1.1 moment2.1\n"
            "OPTIMIZER_STEP 2 -1: gradients.2 scalars -> weights.2 moment1.2 moment2.2\n");
}

TEST(SerialPlan, AddsFourMicroBatchesAsATreeInThisOrder) {
  EXPECT_EQ(text_of(train_plan(small_sizes(1, false), 4, Accumulation::kTree)),
            "LOAD_MICRO_BATCH -1 0: -> batch.0\n"
            "LOAD_MICRO_BATCH -1 1: -> batch.1\n"
            "LOAD_MICRO_BATCH -1 2: -> batch.2\n"
            "LOAD_MICRO_BATCH -1 3: -> batch.3\n"
            "COUNT_TOKENS -1 -1: batch.0 batch.1 batch.2 batch.3 -> scalars\n"
            "FORWARD 0 0: batch.0 weights.0 -> x1.0\n"
            "FORWARD 1 0: x1.0 batch.0 weights.1 -> x2.0 saved1.0\n"
            "LOSS 2 0: x2.0 batch.0 scalars weights.2 -> losses.0 dx.0 gradients.2\n"
            "BACKWARD 1 0: x1.0 saved1.0 batch.0 weights.1 -> dx.0 gradients.1\n"
            "BACKWARD 0 0: batch.0 -> dx.0 gradients.0\n"
            "FORWARD 0 1: batch.1 weights.0 -> x1.1\n"
            "FORWARD 1 1: x1.1 batch.1 weights.1 -> x2.1 saved1.1\n"
            "LOSS 2 1: x2.1 batch.1 scalars weights.2 -> losses.1 dx.1 gradients.2.1\n"
            "BACKWARD 1 1: x1.1 saved1.1 batch.1 weights.1 -> dx.1 gradients.1.1\n"
            "BACKWARD 0 1: batch.1 -> dx.1 gradients.0.1\n"
            "ADD_GRAD 2 -1: gradients.2.1 +> gradients.2\n"
            "ADD_GRAD 1 -1: gradients.1.1 +> gradients.1\n"
            "ADD_GRAD 0 -1: gradients.0.1 +> gradients.0\n"
            "FORWARD 0 2: batch.2 weights.0 -> x1.2\n"
            "FORWARD 1 2: x1.2 batch.2 weights.1 -> x2.2 saved1.2\n"
            "LOSS 2 2: x2.2 batch.2 scalars weights.2 -> losses.2 dx.2 gradients.2.2\n"
            "BACKWARD 1 2: x1.2 saved1.2 batch.2 weights.1 -> dx.2 gradients.1.2\n"
            "BACKWARD 0 2: batch.2 -> dx.2 gradients.0.2\n"
            "FORWARD 0 3: batch.3 weights.0 -> x1.3\n"
            "FORWARD 1 3: x1.3 batch.3 weights.1 -> x2.3 saved1.3\n"
            "LOSS 2 3: x2.3 batch.3 scalars weights.2 -> losses.3 dx.3 gradients.2.3\n"
            "BACKWARD 1 3: x1.3 saved1.3 batch.3 weights.1 -> dx.3 gradients.1.3\n"
            "BACKWARD 0 3: batch.3 -> dx.3 gradients.0.3\n"
            "ADD_GRAD 2 -1: gradients.2.3 +> gradients.2.2\n"
            "ADD_GRAD 1 -1: gradients.1.3 +> gradients.1.2\n"
            "ADD_GRAD 0 -1: gradients.0.3 +> gradients.0.2\n"
            "ADD_GRAD 2 -1: gradients.2.2 +> gradients.2\n"
            "ADD_GRAD 1 -1: gradients.1.2 +> gradients.1\n"
            "ADD_GRAD 0 -1: gradients.0.2 +> gradients.0\n"
            "GRAD_NORM 2 -1: gradients.2 -> norm\n"
            "GRAD_NORM 1 -1: gradients.1 -> norm\n"
            "GRAD_NORM 0 -1: gradients.0 -> norm\n"
            "GRAD_NORM -1 -1: norm -> norm\n"
            "durable\n"
            "OPTIMIZER_STEP 0 -1: gradients.0 scalars -> weights.0 moment1.0 moment2.0\n"
            "OPTIMIZER_STEP 1 -1: gradients.1 scalars -> weights.1 moment1.1 moment2.1\n"
            "OPTIMIZER_STEP 2 -1: gradients.2 scalars -> weights.2 moment1.2 moment2.2\n");
}

TEST(SerialPlan, GoesNoDeeperThanTheFirstBlockThatTrains) {
  EXPECT_EQ(text_of(train_plan(small_sizes(2, false, 2), 1, Accumulation::kInPlace)),
            "LOAD_MICRO_BATCH -1 0: -> batch.0\n"
            "COUNT_TOKENS -1 -1: batch.0 -> scalars\n"
            "FORWARD 0 0: batch.0 weights.0 -> x1.0\n"
            "FORWARD 1 0: x1.0 batch.0 weights.1 -> x2.0 saved1.0\n"
            "FORWARD 2 0: x2.0 batch.0 weights.2 -> x3.0 saved2.0\n"
            "LOSS 3 0: x3.0 batch.0 scalars weights.3 -> losses.0 dx.0 gradients.3\n"
            "BACKWARD 2 0: x2.0 saved2.0 batch.0 weights.2 -> dx.0 gradients.2\n"
            "GRAD_NORM 3 -1: gradients.3 -> norm\n"
            "GRAD_NORM 2 -1: gradients.2 -> norm\n"
            "GRAD_NORM -1 -1: norm -> norm\n"
            "durable\n"
            "OPTIMIZER_STEP 2 -1: gradients.2 scalars -> weights.2 moment1.2 moment2.2\n"
            "OPTIMIZER_STEP 3 -1: gradients.3 scalars -> weights.3 moment1.3 moment2.3\n");
}

/// Returns the final gradients of each block, as sums of micro-batches' gradients, such as "0+1"; the tied
/// head's are "h0".
std::map<int32_t, std::string> symbolic_gradients(const Plan& plan) {
  std::map<SlotId, std::string> value;
  const bool tied = find_state(plan, Role::kLookupGradient, -1) >= 0;
  const auto put = [&](SlotId id, const std::string& what, bool accumulate) {
    value[id] = accumulate ? "(" + value.at(id) + "+" + what + ")" : what;
  };
  for (const Instruction& n : plan.instructions) {
    for (const SlotId id : n.writes()) {
      const Role role = plan.slot(id).role;
      if (role != Role::kGradients && role != Role::kLookupGradient) continue;
      if (tied && n.op == Op::kBackward && role == Role::kGradients && plan.slot(id).block == 0)
        continue;  // gradient of positions: the table's are separate until they are joined
      const bool head = n.op == Op::kLoss && plan.slot(id).block == 0;
      const std::string own = (head ? "h" : "") + std::to_string(n.micro_batch);
      const SlotId from = n.op == Op::kAddGrad        ? n[Operand::kAddend]
                          : n.op == Op::kJoinHeadGrad ? n[Operand::kLookupGradient]
                                                      : -1;
      put(id, from >= 0 ? value.at(from) : own, n.accumulate);
    }
  }
  std::map<int32_t, std::string> gradients;
  for (const Instruction& n : plan.instructions)
    if (n.op == Op::kOptimizerStep) gradients[n.block] = value.at(n[Operand::kGradients]);
  return gradients;
}

TEST(SerialPlan, GradientsAreSumsOfTheirShape) {
  using Shape = std::pair<Accumulation, int32_t>;
  const std::map<Shape, std::pair<std::string, std::string>> expected = {
      // The first text is for blocks, the second for a tied embedding.
      {{Accumulation::kInPlace, 1}, {"0", "(h0+0)"}},
      {{Accumulation::kInPlace, 4}, {"(((0+1)+2)+3)", "((((h0+h1)+h2)+h3)+(((0+1)+2)+3))"}},
      {{Accumulation::kFresh, 3}, {"2", "(h2+2)"}},  // a pass has removed the earlier gradients
      {{Accumulation::kTree, 1}, {"0", "(h0+0)"}},
      {{Accumulation::kTree, 2}, {"(0+1)", "((h0+0)+(h1+1))"}},
      {{Accumulation::kTree, 4}, {"((0+1)+(2+3))", "(((h0+0)+(h1+1))+((h2+2)+(h3+3)))"}},
      {{Accumulation::kTree, 8},
       {"(((0+1)+(2+3))+((4+5)+(6+7)))",
        "((((h0+0)+(h1+1))+((h2+2)+(h3+3)))+(((h4+4)+(h5+5))+((h6+6)+(h7+7))))"}},
  };
  for (const auto& [shape, sums] : expected) {
    for (const bool tied : {true, false}) {
      const Plan plan = train_plan(small_sizes(3, tied), shape.second, shape.first);
      const std::map<int32_t, std::string> gradients = symbolic_gradients(plan);
      ASSERT_EQ(gradients.size(), 5u);
      for (const auto& [block, sum] : gradients)
        EXPECT_EQ(sum, tied && block == 0 ? sums.second : sums.first) << "block " << block;
    }
  }
}

TEST(SerialPlan, ATreeHoldsAsManyGradientsAsItIsDeepAndOneMore) {
  // Gradients are larger than everything else here, so the peak is where most of them are live.
  Sizes s = small_sizes(3, true);
  int64_t one_set = 0;
  for (BlockState& block : s.state) {
    block.gradients = block.gradient_bucket = int64_t{1} << 20;
    one_set += block.gradients;
  }
  for (const auto& [micro_batches, sets] : {std::pair{1, 1}, {2, 2}, {4, 3}, {8, 4}, {16, 5}}) {
    const Plan plan = finished(train_plan(s, micro_batches, Accumulation::kTree));
    EXPECT_EQ(plan.at_peak[static_cast<size_t>(Category::kGradients)], sets * one_set + s.lookup_gradient)
        << micro_batches;
    for (const Accumulation other : {Accumulation::kInPlace, Accumulation::kFresh})
      EXPECT_EQ(
          finished(train_plan(s, micro_batches, other)).at_peak[static_cast<size_t>(Category::kGradients)],
          one_set + s.lookup_gradient);
  }
}

TEST(SerialPlan, WhatIsFrozenHasNoGradientNoNormAndNoStep) {
  for (const int32_t frozen : {0, 1, 3, 4}) {
    for (const Accumulation a : {Accumulation::kInPlace, Accumulation::kFresh, Accumulation::kTree}) {
      const Plan plan = finished(train_plan(small_sizes(3, false, frozen), 2, a));
      std::set<int32_t> normed, stepped;
      for (const Instruction& n : plan.instructions) {
        EXPECT_TRUE(n.op != Op::kBackward || n.block >= frozen);
        if (n.op == Op::kGradNorm && n.block >= 0) {
          EXPECT_TRUE(normed.insert(n.block).second);
        } else if (n.op == Op::kOptimizerStep) {
          EXPECT_TRUE(stepped.insert(n.block).second);
        }
        for (const SlotId id : n.writes())
          EXPECT_TRUE(plan.slot(id).role != Role::kGradients || plan.slot(id).block >= frozen);
      }
      std::set<int32_t> trained;
      for (int32_t b = frozen; b < 5; ++b) trained.insert(b);
      EXPECT_EQ(normed, trained);
      EXPECT_EQ(stepped, trained);
    }
  }
}

TEST(SerialPlan, WithoutATiedHeadNothingIsJoined) {
  for (const Accumulation a : {Accumulation::kInPlace, Accumulation::kFresh, Accumulation::kTree})
    for (const Instruction& n : train_plan(small_sizes(1, false), 2, a).instructions)
      EXPECT_NE(n.op, Op::kJoinHeadGrad);
}

TEST(SerialPlan, OnOneRankNothingTravelsAndNobodyWaits) {
  for (const Instruction& n :
       finished(train_plan(small_sizes(2, true), 4, Accumulation::kTree)).instructions) {
    EXPECT_EQ(n.lane, Lane::kCompute);
    EXPECT_EQ(n.waits_for.newest(), -1);
    EXPECT_EQ(n.sent_bytes, 0);
  }
}

TEST(SerialPlan, EvaluatesInThisOrder) {
  EXPECT_EQ(text_of(eval_plan(small_sizes(2, true))),
            "LOAD_MICRO_BATCH -1 0: -> batch.0\n"
            "FORWARD 0 0: batch.0 weights.0 -> x1.0\n"
            "FORWARD 1 0: x1.0 batch.0 weights.1 -> x2.0 saved1.0\n"
            "FORWARD 2 0: x2.0 batch.0 weights.2 -> x3.0 saved2.0\n"
            "EVAL_LOSS 3 0: x3.0 batch.0 weights.3 weights.0 -> losses.0\n");
}

TEST(SerialPlan, ReturnsLogitsInThisOrder) {
  EXPECT_EQ(text_of(logits_plan(small_sizes(1, true))),
            "LOAD_MICRO_BATCH -1 0: -> batch.0\n"
            "FORWARD 0 0: batch.0 weights.0 -> x1.0\n"
            "FORWARD 1 0: x1.0 batch.0 weights.1 -> x2.0 saved1.0\n"
            "LOGITS 2 0: x2.0 batch.0 weights.2 weights.0 ->\n");
}

TEST(SerialPlan, GeneratesThroughCachesThatLiveOverTheWholePlan) {
  const Plan plan = finished(generate_plan(small_sizes(2, true)));
  EXPECT_EQ(text_of(plan),
            "LOAD_MICRO_BATCH -1 0: -> batch.0 x kv1 kv2\n"
            "FORWARD 0 0: batch.0 weights.0 -> x\n"
            "FORWARD 1 0: x batch.0 weights.1 kv1 -> x kv1\n"
            "FORWARD 2 0: x batch.0 weights.2 kv2 -> x kv2\n"
            "LOGITS 3 0: x batch.0 weights.3 weights.0 kv1 kv2 ->\n");
  for (const char* cache : {"kv1", "kv2"}) {
    const Slot& slot = plan.slots[static_cast<size_t>(find_slot(plan, cache))];
    EXPECT_EQ(slot.first, 0);
    EXPECT_EQ(slot.last, static_cast<int32_t>(plan.instructions.size()) - 1);
  }
}

std::vector<Plan> all_plans(int64_t layers, bool tied, int32_t micro_batches) {
  const Sizes s = small_sizes(layers, tied);
  return {finished(train_plan(s, micro_batches, Accumulation::kInPlace)),
          finished(train_plan(s, micro_batches, Accumulation::kFresh)),
          finished(train_plan(s, 4, Accumulation::kTree)),
          finished(eval_plan(s)),
          finished(logits_plan(s)),
          finished(generate_plan(s))};
}

TEST(SerialPlan, NothingIsReadThatNobodyWrote) {
  for (const int64_t layers : {1, 2, 5}) {
    for (const bool tied : {true, false}) {
      for (const Plan& plan : all_plans(layers, tied, 3)) {
        std::set<SlotId> written;
        for (size_t s = 0; s < plan.slots.size(); ++s)
          if (plan.slots[s].persistent) written.insert(static_cast<SlotId>(s));
        for (const Instruction& n : plan.instructions) {
          for (const SlotId id : n.reads())
            EXPECT_TRUE(written.count(id)) << plan.name << ": " << plan.slots[static_cast<size_t>(id)].name;
          for (const SlotId id : n.writes()) written.insert(id);
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
      for (const SlotId id : n.reads())
        EXPECT_NE(plan.slots[static_cast<size_t>(id)].category, Category::kWorkspace);
      for (const SlotId id : n.writes())
        EXPECT_NE(plan.slots[static_cast<size_t>(id)].category, Category::kWorkspace);
    }
    for (const auto& [id, count] : uses) EXPECT_EQ(count, 1) << plan.name;
  }
}

TEST(SerialPlan, WhatAForwardSavesLivesUntilItsBackwardAndNoLonger) {
  const Plan plan = finished(train_plan(small_sizes(4, true), 2, Accumulation::kInPlace));
  for (size_t i = 0; i < plan.instructions.size(); ++i) {
    const Instruction& n = plan.instructions[i];
    if (n.op != Op::kBackward || n.block == 0) continue;
    const Slot& saved = plan.slots[static_cast<size_t>(n[Operand::kSaved])];
    EXPECT_EQ(saved.last, static_cast<int32_t>(i)) << saved.name;
    const Instruction& forward = plan.instructions[static_cast<size_t>(saved.first)];
    EXPECT_TRUE(forward.op == Op::kForward && forward.block == n.block &&
                forward.micro_batch == n.micro_batch);
  }
}

TEST(SerialPlan, AnEvaluationKeepsNothingFromBlockToBlock) {
  const Plan plan = finished(eval_plan(small_sizes(6, true)));
  int64_t widest = 0;
  for (const Slot& slot : plan.slots) {
    if (!slot.name.starts_with("saved")) continue;
    EXPECT_EQ(slot.first, slot.last) << slot.name;
    widest = std::max(widest, slot.bytes);
  }
  EXPECT_EQ(widest, 700);
  const Plan deep = finished(eval_plan(small_sizes(60, true)));
  EXPECT_EQ(deep.peak_bytes - deep.persistent_bytes, plan.peak_bytes - plan.persistent_bytes)
      << "depth must not cost memory";
}

TEST(SerialPlan, AccumulationCostsNoActivationMemory) {
  const auto activations = [](const Plan& plan) {
    return plan.at_peak[static_cast<size_t>(Category::kActivations)];
  };
  const auto train = [](int32_t micro_batches) {
    return finished(train_plan(small_sizes(3, true), micro_batches, Accumulation::kInPlace));
  };
  const Plan one = train(1), four = train(4);
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
  const Plan plan = finished(train_plan(small_sizes(1, true), 1, Accumulation::kInPlace));
  const std::string text = format_instructions(plan);
  // The table has a heading of two lines, and a line where the durable part begins.
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), static_cast<int64_t>(plan.instructions.size()) + 3)
      << text;
  EXPECT_NE(text.find("FORWARD              1    0     2.000  x1.0, batch.0, weights.1 -> x2.0, saved1.0\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("durable from here"), std::string::npos);
  const std::string memory = format_memory(plan);
  EXPECT_NE(memory.find(std::to_string(plan.peak_bytes)), std::string::npos) << memory;
}

}  // namespace serial_test
}  // namespace hawser::plan
