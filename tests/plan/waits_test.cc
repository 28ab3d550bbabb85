// Tests waits on random plans with transfers, by brute force over bytes: if an instruction and an earlier
// transfer use the same bytes and at least one writes them, the instruction starts after a wait that covers
// the transfer. No wait is unnecessary or later than needed.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "engine/plan/plan.h"

namespace hawser::plan {
namespace waits_test {

constexpr uint32_t kPlans = 400;

/// Returns a plan whose slots are small and short-lived, so that bytes are often reused. Every third plan has
/// one lane of transfers, as serial plans have; the others have two or three. In every fifth the host's
/// processor also works.
Plan random_plan(uint32_t seed) {
  std::mt19937 random(seed);
  const size_t lanes = 1 + seed % 3;
  const auto below = [&](size_t n) { return static_cast<size_t>(random()) % n; };
  Plan plan;
  std::vector<SlotId> recent;
  const size_t length = 1 + below(70), window = 1 + below(8);
  for (size_t i = 0; i < length; ++i) {
    for (size_t k = below(3); k > 0; --k) {
      Slot slot{"slot" + std::to_string(plan.slots.size())};
      slot.bytes = static_cast<int64_t>(1 + below(200));
      slot.persistent = below(12) == 0;
      recent.push_back(plan.add_slot(slot));
    }
    if (recent.empty()) continue;
    const auto any = [&] {
      const size_t from = recent.size() - std::min(window, recent.size());
      return recent[below(8) == 0 ? below(recent.size()) : from + below(recent.size() - from)];
    };
    Instruction n;
    if (below(3) == 0) n.lane = static_cast<Lane>(1 + below(lanes));
    if (seed % 5 == 0 && below(4) == 0) n.lane = Lane::kHost;
    for (size_t k = below(3); k > 0; --k) n.read(Operand::kSent, any());
    for (size_t k = below(3); k > 0; --k) n.write(Operand::kReceived, any());
    if (below(6) == 0) n.holds.push_back(any());
    plan.add(n, !n.is_transfer() && below(3) == 0 ? static_cast<int64_t>(1 + below(300)) : 0);
  }
  assign_memory(&plan);
  assign_waits(&plan);
  return plan;
}

/// Returns the use of each byte of the arena: 0 untouched, 1 read, 2 written.
std::vector<uint8_t> bytes_of(const Plan& plan, const Instruction& n) {
  std::vector<uint8_t> bytes(static_cast<size_t>(plan.peak_bytes));
  const auto paint = [&](SlotId id, uint8_t how) {
    const Slot& slot = plan.slot(id);
    for (int64_t i = slot.offset; i < slot.offset + slot.bytes; ++i)
      bytes[static_cast<size_t>(i)] = std::max(bytes[static_cast<size_t>(i)], how);
  };
  for (const Use& use : n.uses) paint(use.slot, use.written ? 2 : 1);
  if (n.scratch >= 0) paint(n.scratch, 2);
  return bytes;
}

struct Pair {
  size_t transfer, later;
};

/// Returns all pairs of a transfer and a later instruction of another lane that may not overlap in time.
std::vector<Pair> conflicting_pairs(const Plan& plan) {
  std::vector<std::vector<uint8_t>> bytes;
  for (const Instruction& n : plan.instructions) bytes.push_back(bytes_of(plan, n));
  std::vector<Pair> pairs;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (!plan.instructions[i].is_transfer()) continue;
    for (size_t j = i + 1; j < bytes.size(); ++j) {
      if (plan.instructions[j].lane == plan.instructions[i].lane) continue;
      bool conflict = false;
      for (size_t b = 0; b < bytes[i].size() && !conflict; ++b)
        conflict = bytes[i][b] > 0 && bytes[j][b] > 0 && bytes[i][b] + bytes[j][b] > 2;
      if (conflict) pairs.push_back({i, j});
    }
  }
  return pairs;
}

/// True if the instruction or an earlier one waits for the transfer: a wait covers all earlier transfers of
/// the lane, because they run in order. The host's waits order only the host's work.
bool covered(const Plan& plan, const Pair& pair) {
  const Lane lane = plan.instructions[pair.transfer].lane;
  for (size_t k = pair.transfer + 1; k <= pair.later; ++k)
    if (plan.instructions[k].on_host() == plan.instructions[pair.later].on_host() &&
        plan.instructions[k].waits_for[lane] >= static_cast<int32_t>(pair.transfer))
      return true;
  return false;
}

bool all_covered(const Plan& plan, const std::vector<Pair>& pairs) {
  return std::all_of(pairs.begin(), pairs.end(), [&](const Pair& pair) { return covered(plan, pair); });
}

TEST(Waits, CoverEveryTransferWhoseBytesAreUsedLater) {
  size_t checked = 0;
  for (uint32_t seed = 0; seed < kPlans; ++seed) {
    const Plan plan = random_plan(seed);
    for (const Pair& pair : conflicting_pairs(plan)) {
      ASSERT_TRUE(covered(plan, pair))
          << "seed " << seed << ": " << pair.later << " needs " << pair.transfer << "\n"
          << format_instructions(plan);
      ++checked;
    }
  }
  EXPECT_GT(checked, kPlans) << "plans without conflicts prove nothing";
}

TEST(Waits, AreForEarlierTransfersOfAnotherLane) {
  for (uint32_t seed = 0; seed < kPlans; ++seed) {
    const Plan plan = random_plan(seed);
    for (size_t i = 0; i < plan.instructions.size(); ++i) {
      const Instruction& n = plan.instructions[i];
      ASSERT_EQ(n.waits_for[n.lane], -1) << "seed " << seed << ", " << i;
      for (size_t l = 0; l < kLanes; ++l) {
        const auto lane = static_cast<Lane>(l);
        ASSERT_LT(n.waits_for[lane], static_cast<int32_t>(i)) << "seed " << seed;
        if (n.waits_for[lane] < 0) continue;
        ASSERT_NE(lane, Lane::kCompute);
        ASSERT_EQ(plan.instructions[static_cast<size_t>(n.waits_for[lane])].lane, lane);
      }
    }
  }
}

TEST(Waits, CouldNeitherBeSparedNorLowered) {
  size_t waits = 0;
  for (uint32_t seed = 0; seed < kPlans; ++seed) {
    Plan plan = random_plan(seed);
    const std::vector<Pair> pairs = conflicting_pairs(plan);
    for (size_t i = 0; i < plan.instructions.size(); ++i) {
      for (size_t l = 0; l < kLanes; ++l) {
        int32_t& waits_for = plan.instructions[i].waits_for[static_cast<Lane>(l)];
        const int32_t wait = waits_for;
        if (wait < 0) continue;
        for (const int32_t less : {-1, wait - 1}) {
          waits_for = less;
          ASSERT_FALSE(all_covered(plan, pairs))
              << "seed " << seed << ": " << i << " need not wait for " << wait;
        }
        waits_for = wait;
        ++waits;
      }
    }
  }
  EXPECT_GT(waits, kPlans);
}

TEST(Waits, TheNewestTransferOfASlotIsKnown) {
  for (uint32_t seed = 0; seed < kPlans; ++seed) {
    const Plan plan = random_plan(seed);
    std::vector<LaneMarks> newest(plan.slots.size());
    for (size_t i = 0; i < plan.instructions.size(); ++i) {
      const Instruction& n = plan.instructions[i];
      if (!n.is_transfer()) continue;
      for (const Use& use : n.uses) newest[static_cast<size_t>(use.slot)][n.lane] = static_cast<int32_t>(i);
    }
    for (size_t s = 0; s < newest.size(); ++s)
      ASSERT_TRUE(plan.slots[s].last_transfer == newest[s]) << "seed " << seed << ", " << plan.slots[s].name;
  }
}

/// Adds a transfer that reads `sent`, then a computation; returns the transfer for which the computation
/// waits.
int32_t wait_of(bool writes_sent, bool reads_sent, bool held) {
  Plan plan;
  const SlotId sent = plan.add_slot({"sent", Category::kBuckets, 100});
  const SlotId next = plan.add_slot({"next", Category::kBuckets, 100});
  Instruction make, send, compute;
  make.write(Operand::kGradients, sent);
  send.op = Op::kReduceGrad;
  send.lane = Lane::kDataParallel;
  send.read(Operand::kSent, sent);
  compute.write(Operand::kY, next);
  if (writes_sent) compute.write(Operand::kGradients, sent);
  if (reads_sent) compute.read(Operand::kX, sent);
  if (held) compute.holds = {sent};
  plan.add(make), plan.add(send), plan.add(compute);
  assign_memory(&plan);
  assign_waits(&plan);
  return plan.instructions[2].waits_for[Lane::kDataParallel];
}

TEST(Waits, FollowFromBytesNotFromNames) {
  EXPECT_EQ(wait_of(true, false, false), 1) << "it overwrites what is being sent";
  EXPECT_EQ(wait_of(false, true, false), -1) << "two may read";
  EXPECT_EQ(wait_of(false, false, false), 1) << "another slot took the place of what is being sent";
  EXPECT_EQ(wait_of(false, false, true), -1) << "what is held keeps its place, and nobody waits";
}

/// Gradients are sent on one lane while activations arrive on another. A computation on both waits for the
/// newest transfer of each lane; a transfer waits for another lane's, not for its own lane's.
TEST(Waits, AreByLane) {
  Plan plan;
  const auto slot = [&](const char* name) { return plan.add_slot({name, Category::kBuckets, 100, true}); };
  const SlotId a = slot("a"), b = slot("b"), x = slot("x");
  const auto transfer = [&](Lane lane, SlotId reads, SlotId writes) {
    Instruction n;
    n.op = Op::kReduceGrad, n.lane = lane;
    n.read(Operand::kSent, reads), n.write(Operand::kReceived, writes);
    plan.add(n);
  };
  transfer(Lane::kDataParallel, a, a);    // 0
  transfer(Lane::kXFromPrevious, -1, x);  // 1
  transfer(Lane::kDataParallel, b, b);    // 2
  transfer(Lane::kDataParallel, a, a);    // queued after 0 on its lane
  transfer(Lane::kXToNext, x, -1);        // 4: sends what 1 receives
  Instruction both;
  both.read(Operand::kX, x), both.read(Operand::kBatch, b);
  plan.add(both);  // 5
  both.write(Operand::kY, x);
  plan.add(both);  // 6: overwrites what 4 sends
  assign_memory(&plan);
  assign_waits(&plan);
  const auto waits = [&](size_t i, Lane lane) { return plan.instructions[i].waits_for[lane]; };
  EXPECT_EQ(plan.instructions[3].waits_for.newest(), -1);
  EXPECT_EQ(waits(4, Lane::kXFromPrevious), 1);
  EXPECT_EQ(waits(4, Lane::kDataParallel), -1);
  EXPECT_EQ(waits(5, Lane::kDataParallel), 2);
  EXPECT_EQ(waits(5, Lane::kXFromPrevious), -1) << "4 has waited for it";
  EXPECT_EQ(waits(5, Lane::kXToNext), -1) << "two may read";
  EXPECT_EQ(waits(6, Lane::kXToNext), 4);
  EXPECT_EQ(waits(6, Lane::kDataParallel), -1);
}

}  // namespace waits_test
}  // namespace hawser::plan
