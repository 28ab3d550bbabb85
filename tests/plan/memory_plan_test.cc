// The memory plan on random plans: slots alive together never share bytes, and the plan's sums are those of a
// slow recount.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "engine/plan/plan.h"

namespace hawser::plan {
namespace {

/// A plan of random slots and instructions; some slots are named by no one, some instructions name nothing.
Plan random_plan(uint32_t seed) {
  std::mt19937 random(seed);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  PlanBuilder b("random");
  std::vector<SlotId> slots;
  for (int64_t i = 0, n = 1 + below(40); i < n; ++i) {
    const auto category = static_cast<Category>(below(static_cast<int64_t>(Category::kCount)));
    const int64_t bytes = below(4) == 0 ? 64 * below(20) : 1 + below(5000);
    const std::string name = "slot" + std::to_string(i);
    slots.push_back(below(5) == 0 ? b.persistent(name, category, bytes) : b.transient(name, category, bytes));
  }
  for (int64_t i = 0, n = below(60); i < n; ++i) {
    std::vector<SlotId> reads, writes;
    for (int64_t k = below(4); k > 0; --k)
      reads.push_back(slots[static_cast<size_t>(below(static_cast<int64_t>(slots.size())))]);
    for (int64_t k = below(3); k > 0; --k)
      writes.push_back(slots[static_cast<size_t>(below(static_cast<int64_t>(slots.size())))]);
    b.add(Op::kForward, 0, static_cast<int32_t>(i), reads, writes, below(2) * below(3000));
  }
  return b.finish();
}

bool alive(const Slot& slot, int32_t step) {
  return slot.persistent || (slot.first >= 0 && slot.first <= step && step <= slot.last);
}

bool named_by(const Instruction& n, SlotId id) {
  return std::count(n.reads.begin(), n.reads.end(), id) > 0 ||
         std::count(n.writes.begin(), n.writes.end(), id) > 0 || n.scratch == id;
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
        ASSERT_EQ(live[i]->offset % PlanBuilder::kAlign, 0) << "seed " << seed << ", " << live[i]->name;
        if (i == 0) continue;
        ASSERT_LE(live[i - 1]->offset + live[i - 1]->bytes, live[i]->offset)
            << "seed " << seed << ", step " << step << ": " << live[i - 1]->name << " and " << live[i]->name;
      }
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
      end = (slot.offset + slot.bytes + PlanBuilder::kAlign - 1) / PlanBuilder::kAlign * PlanBuilder::kAlign;
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

TEST(MemoryPlan, SlotsThatNeverMeetShareTheirPlace) {
  PlanBuilder b("chain");
  const SlotId kept = b.persistent("kept", Category::kWeights, 100);
  SlotId x = b.transient("x0", Category::kActivations, 1000);
  b.add(Op::kForward, 0, 0, {kept}, {x});
  for (int32_t i = 1; i < 9; ++i) {
    const SlotId y = b.transient("x" + std::to_string(i), Category::kActivations, 1000);
    b.add(Op::kForward, 0, i, {x, kept}, {y});
    x = y;
  }
  const Plan plan = b.finish();
  EXPECT_EQ(plan.persistent_bytes, 128);
  EXPECT_EQ(plan.peak_bytes, 128 + 1024 + 1000) << "a chain needs room for two";
  EXPECT_EQ(plan.at_peak[static_cast<size_t>(Category::kActivations)], 2000);
}

TEST(MemoryPlan, ASlotOfNoBytesIsNoOperand) {
  PlanBuilder b("empty");
  EXPECT_EQ(b.persistent("nothing", Category::kWeights, 0), -1);
  EXPECT_EQ(b.transient("nothing", Category::kWeights, 0), -1);
  b.add(Op::kForward, 0, 0, {-1, -1}, {-1});
  const Plan plan = b.finish();
  EXPECT_TRUE(plan.slots.empty());
  EXPECT_TRUE(plan.instructions[0].reads.empty() && plan.instructions[0].writes.empty());
  EXPECT_EQ(plan.instructions[0].scratch, -1);
  EXPECT_EQ(plan.peak_bytes, 0);
}

}  // namespace
}  // namespace hawser::plan
