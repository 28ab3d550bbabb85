// Tests the memory plan on random plans: slots that are live together never share bytes, and the plan's sums
// are those of a slow recount.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "engine/plan/early_plan.h"
#include "engine/plan/plan.h"

namespace hawser::plan {
namespace memory_plan_test {

/// Does what finish does after it has checked the operands, so that plans may have any operands.
void place(Plan* plan) {
  assign_memory(plan);
  assign_waits(plan);
}

/// Returns a plan of random slots and instructions without memory; some slots have no instruction, some
/// instructions have no slot.
Plan unplaced_plan(uint32_t seed) {
  std::mt19937 random(seed);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  Plan plan;
  plan.name = "random";
  std::vector<SlotId> slots;
  for (int64_t i = 0, n = 1 + below(40); i < n; ++i) {
    Slot slot{"slot" + std::to_string(i)};
    slot.category = static_cast<Category>(below(static_cast<int64_t>(Category::kCount)));
    slot.bytes = below(4) == 0 ? 64 * (1 + below(20)) : 1 + below(5000);
    slot.persistent = below(5) == 0;
    slots.push_back(plan.add_slot(slot));
  }
  const auto any = [&] { return slots[static_cast<size_t>(below(static_cast<int64_t>(slots.size())))]; };
  for (int64_t i = 0, n = below(60); i < n; ++i) {
    Instruction instruction;
    instruction.block = static_cast<int32_t>(i);
    for (int64_t k = below(4); k > 0; --k) instruction.read(Operand::kX, any());
    for (int64_t k = below(3); k > 0; --k) instruction.write(Operand::kY, any());
    if (below(4) == 0) instruction.holds.push_back(any());
    plan.add(instruction, below(2) * below(3000));
  }
  return plan;
}

Plan random_plan(uint32_t seed) {
  Plan plan = unplaced_plan(seed);
  place(&plan);
  return plan;
}

bool alive(const Slot& slot, int32_t step) {
  return slot.persistent || (slot.first >= 0 && slot.first <= step && step <= slot.last);
}

bool named_by(const Instruction& n, SlotId id) {
  return std::any_of(n.uses.begin(), n.uses.end(), [&](const Use& use) { return use.slot == id; }) ||
         std::count(n.holds.begin(), n.holds.end(), id) > 0 || n.scratch == id;
}

constexpr uint32_t kPlans = 300;

TEST(MemoryPlan, LifetimesRunFromTheFirstInstructionThatNamesASlotToTheLast) {
  for (uint32_t seed = 0; seed < kPlans; ++seed) {
    const Plan plan = random_plan(seed);
    for (size_t s = 0; s < plan.slots.size(); ++s) {
      int32_t first = -1, last = -1;
      for (size_t i = 0; i < plan.instructions.size(); ++i) {
        if (!named_by(plan.instructions[i], static_cast<SlotId>(s))) continue;
        if (first < 0) first = static_cast<int32_t>(i);
        last = static_cast<int32_t>(i);
      }
      ASSERT_EQ(plan.slots[s].first, first) << "seed " << seed << ", " << plan.slots[s].name;
      ASSERT_EQ(plan.slots[s].last, last) << "seed " << seed << ", " << plan.slots[s].name;
    }
  }
}

TEST(MemoryPlan, SlotsAliveTogetherNeverShareBytes) {
  for (uint32_t seed = 0; seed < kPlans; ++seed) {
    const Plan plan = random_plan(seed);
    for (int32_t step = 0; step < static_cast<int32_t>(plan.instructions.size()); ++step) {
      std::vector<const Slot*> live;
      for (const Slot& slot : plan.slots)
        if (alive(slot, step)) live.push_back(&slot);
      std::sort(live.begin(), live.end(), [](const Slot* a, const Slot* b) { return a->offset < b->offset; });
      for (size_t i = 0; i < live.size(); ++i) {
        ASSERT_GE(live[i]->offset, 0) << "seed " << seed;
        ASSERT_EQ(live[i]->offset % Plan::kAlign, 0) << "seed " << seed << ", " << live[i]->name;
        if (i == 0) continue;
        ASSERT_LE(live[i - 1]->offset + live[i - 1]->bytes, live[i]->offset)
            << "seed " << seed << ", step " << step << ": " << live[i - 1]->name << " and " << live[i]->name;
      }
    }
  }
}

/// Returns offsets by definition, in quadratic time: slot by slot, largest first, each above all slots placed
/// before it that are live at the same time.
std::vector<int64_t> slow_offsets(const Plan& plan) {
  const auto aligned = [](int64_t bytes) { return (bytes + Plan::kAlign - 1) / Plan::kAlign * Plan::kAlign; };
  std::vector<int64_t> offsets(plan.slots.size(), -1);
  std::vector<size_t> order, placed;
  for (size_t i = 0; i < plan.slots.size(); ++i)
    if (!plan.slots[i].persistent && plan.slots[i].first >= 0) order.push_back(i);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return plan.slots[a].bytes > plan.slots[b].bytes; });
  for (const size_t i : order) {
    const Slot& slot = plan.slots[i];
    int64_t at = plan.persistent_bytes;
    for (const size_t p : placed) {
      const Slot& other = plan.slots[p];
      if (slot.first > other.last || other.first > slot.last) continue;
      if (at + slot.bytes <= offsets[p]) break;
      at = std::max(at, aligned(offsets[p] + other.bytes));
    }
    offsets[i] = at;
    placed.push_back(i);
    std::sort(placed.begin(), placed.end(), [&](size_t a, size_t b) { return offsets[a] < offsets[b]; });
  }
  return offsets;
}

/// Slots that are placed early, because early instructions use them, are where the complete plan has them.
TEST(MemoryPlan, EarlySlotsAreWhereTheCompletePlanHasThem) {
  size_t early_slots = 0, later_slots = 0;
  for (uint32_t seed = 0; seed < kPlans; ++seed) {
    const Plan complete = random_plan(seed);
    Plan plan = unplaced_plan(seed);
    for (Slot& slot : plan.slots) slot.category = Category::kActivations;
    const size_t end = plan.instructions.size() / 4;
    assign_early_memory(&plan, end);
    for (size_t s = 0; s < plan.slots.size(); ++s) {
      const Slot& slot = plan.slots[s];
      if (slot.first < 0 || slot.persistent) continue;
      const bool is_placed = slot.offset >= 0;
      EXPECT_TRUE(is_placed || slot.first >= static_cast<int32_t>(end))
          << "seed " << seed << ", " << slot.name;
      if (is_placed) {
        EXPECT_EQ(slot.offset, complete.slots[s].offset) << "seed " << seed << ", " << slot.name;
      }
      ++(is_placed ? early_slots : later_slots);
    }
    place(&plan);
    EXPECT_EQ(plan.peak_bytes, complete.peak_bytes) << "seed " << seed;
    for (size_t s = 0; s < plan.slots.size(); ++s)
      EXPECT_EQ(plan.slots[s].offset, complete.slots[s].offset)
          << "seed " << seed << ", " << plan.slots[s].name;
    for (size_t i = 0; i < plan.instructions.size(); ++i)
      EXPECT_EQ(plan.instructions[i].waits_for, complete.instructions[i].waits_for) << "seed " << seed;
  }
  EXPECT_GT(early_slots, 100u);
  EXPECT_GT(later_slots, 100u);
}

TEST(MemoryPlan, EachSlotLiesAtTheLowestFreeBytesOfItsLifetime) {
  for (uint32_t seed = 0; seed < kPlans; ++seed) {
    const Plan plan = random_plan(seed);
    const std::vector<int64_t> slow = slow_offsets(plan);
    for (size_t s = 0; s < plan.slots.size(); ++s) {
      if (plan.slots[s].persistent) continue;
      ASSERT_EQ(plan.slots[s].offset, slow[s]) << "seed " << seed << ", " << plan.slots[s].name;
    }
  }
}

TEST(MemoryPlan, PersistentSlotsLieInFrontInOrder) {
  for (uint32_t seed = 0; seed < kPlans; ++seed) {
    const Plan plan = random_plan(seed);
    int64_t end = 0;
    for (const Slot& slot : plan.slots) {
      if (!slot.persistent) continue;
      ASSERT_EQ(slot.offset, end) << "seed " << seed;
      end = (slot.offset + slot.bytes + Plan::kAlign - 1) / Plan::kAlign * Plan::kAlign;
    }
    ASSERT_EQ(plan.persistent_bytes, end) << "seed " << seed;
    for (const Slot& slot : plan.slots) {
      if (slot.persistent) continue;
      const bool right = slot.first >= 0 ? slot.offset >= end : slot.offset == -1;
      ASSERT_TRUE(right) << "seed " << seed << ", " << slot.name << " at " << slot.offset;
    }
  }
}

TEST(MemoryPlan, ThePeakIsTheEndOfTheHighestSlotAndAtPeakASlowRecount) {
  for (uint32_t seed = 0; seed < kPlans; ++seed) {
    const Plan plan = random_plan(seed);
    int64_t highest = plan.persistent_bytes, most = -1;
    for (const Slot& slot : plan.slots)
      if (slot.offset >= 0) highest = std::max(highest, slot.offset + slot.bytes);
    ASSERT_EQ(plan.peak_bytes, highest) << "seed " << seed;

    MemoryByCategory at_peak{};
    for (int32_t step = 0; step < std::max<int32_t>(1, static_cast<int32_t>(plan.instructions.size()));
         ++step) {
      MemoryByCategory live{};
      for (const Slot& slot : plan.slots)
        if (alive(slot, step)) live[static_cast<size_t>(slot.category)] += slot.bytes;
      const int64_t total = std::accumulate(live.begin(), live.end(), int64_t{0});
      if (total > most) most = total, at_peak = live;
    }
    ASSERT_EQ(plan.at_peak, at_peak) << "seed " << seed;
    ASSERT_GE(plan.peak_bytes, most) << "seed " << seed;
  }
}

SlotId add(Plan* plan, std::string name, int64_t bytes, bool persistent = false) {
  return plan->add_slot({std::move(name), Category::kActivations, bytes, persistent});
}

/// Adds an instruction with these reads and writes.
void step(Plan* plan, std::vector<SlotId> reads, std::vector<SlotId> writes, std::vector<SlotId> holds = {}) {
  Instruction n;
  for (const SlotId id : reads) n.read(Operand::kX, id);
  for (const SlotId id : writes) n.write(Operand::kY, id);
  n.holds = std::move(holds);
  plan->add(n);
}

TEST(MemoryPlan, SlotsThatNeverMeetShareTheirPlace) {
  Plan plan;
  const SlotId kept = add(&plan, "kept", 100, true);
  SlotId x = add(&plan, "x0", 1000);
  step(&plan, {kept}, {x});
  for (int32_t i = 1; i < 9; ++i) {
    const SlotId y = add(&plan, "x" + std::to_string(i), 1000);
    step(&plan, {x, kept}, {y});
    x = y;
  }
  place(&plan);
  EXPECT_EQ(plan.persistent_bytes, 128);
  EXPECT_EQ(plan.peak_bytes, 128 + 1024 + 1000) << "a chain needs room for two";
  EXPECT_EQ(plan.at_peak[static_cast<size_t>(Category::kActivations)], 2100);
}

TEST(MemoryPlan, WhatIsHeldKeepsItsPlaceThoughNobodyTouchesIt) {
  for (const bool held : {false, true}) {
    Plan plan;
    const SlotId first = add(&plan, "first", 1000), second = add(&plan, "second", 1000);
    step(&plan, {}, {first});
    step(&plan, {}, {second}, held ? std::vector{first} : std::vector<SlotId>{});
    place(&plan);
    EXPECT_EQ(plan.peak_bytes, held ? 1024 + 1000 : 1000);
  }
}

TEST(MemoryPlan, ASlotOfNoBytesIsNoOperand) {
  Plan plan;
  EXPECT_EQ(add(&plan, "nothing", 0, true), -1);
  EXPECT_EQ(add(&plan, "nothing", 0), -1);
  step(&plan, {-1, -1}, {-1});
  place(&plan);
  EXPECT_TRUE(plan.slots.empty());
  EXPECT_TRUE(plan.instructions[0].uses.empty());
  EXPECT_EQ(plan.instructions[0][Operand::kX], -1);
  EXPECT_EQ(plan.instructions[0].scratch, -1);
  EXPECT_EQ(plan.peak_bytes, 0);
}

TEST(MemoryPlan, FinishingAPlanTwiceChangesNothing) {
  for (uint32_t seed = 0; seed < 50; ++seed) {
    Plan plan = random_plan(seed);
    const std::string once = plan_json(plan);
    place(&plan);
    ASSERT_EQ(plan_json(plan), once) << "seed " << seed;
  }
}

}  // namespace memory_plan_test
}  // namespace hawser::plan
