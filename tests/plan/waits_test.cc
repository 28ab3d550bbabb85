// Who waits for whom, on random plans with transfers: by brute force over bytes, whatever computes on bytes
// that an earlier transfer uses (and one of both writes) starts after a wait that covers that transfer, and
// no wait could be spared or lowered.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "engine/plan/plan.h"

namespace hawser::plan {
namespace {

constexpr uint32_t kPlans = 400;

/// A plan whose slots are small and die young, so that bytes change hands often.
Plan random_plan(uint32_t seed) {
  std::mt19937 random(seed);
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
    n.stream = below(3) == 0 ? StreamId::kCommunication : StreamId::kCompute;
    for (size_t k = below(3); k > 0; --k) n.reads.push_back(any());
    for (size_t k = below(3); k > 0; --k) n.writes.push_back(any());
    if (below(6) == 0) n.holds.push_back(any());
    plan.add(n, n.stream == StreamId::kCompute && below(3) == 0 ? static_cast<int64_t>(1 + below(300)) : 0);
  }
  finish(&plan);
  return plan;
}

/// Of each byte of the arena: 0 untouched, 1 read, 2 written.
std::vector<uint8_t> bytes_of(const Plan& plan, const Instruction& n) {
  std::vector<uint8_t> bytes(static_cast<size_t>(plan.peak_bytes));
  const auto paint = [&](SlotId id, uint8_t how) {
    const Slot& slot = plan.slot(id);
    for (int64_t i = slot.offset; i < slot.offset + slot.bytes; ++i)
      bytes[static_cast<size_t>(i)] = std::max(bytes[static_cast<size_t>(i)], how);
  };
  for (const SlotId id : n.reads) paint(id, 1);
  for (const SlotId id : n.writes) paint(id, 2);
  if (n.scratch >= 0) paint(n.scratch, 2);
  return bytes;
}

struct Pair {
  size_t transfer, compute;
};

/// Every transfer and later computation that may not overlap in time.
std::vector<Pair> conflicting_pairs(const Plan& plan) {
  std::vector<std::vector<uint8_t>> bytes;
  for (const Instruction& n : plan.instructions) bytes.push_back(bytes_of(plan, n));
  std::vector<Pair> pairs;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (plan.instructions[i].stream != StreamId::kCommunication) continue;
    for (size_t j = i + 1; j < bytes.size(); ++j) {
      if (plan.instructions[j].stream == StreamId::kCommunication) continue;
      bool conflict = false;
      for (size_t b = 0; b < bytes[i].size() && !conflict; ++b)
        conflict = bytes[i][b] > 0 && bytes[j][b] > 0 && bytes[i][b] + bytes[j][b] > 2;
      if (conflict) pairs.push_back({i, j});
    }
  }
  return pairs;
}

/// A wait for any transfer covers all before it: transfers run in order.
bool covered(const Plan& plan, const Pair& pair) {
  for (size_t k = pair.transfer + 1; k <= pair.compute; ++k)
    if (plan.instructions[k].waits_for >= static_cast<int32_t>(pair.transfer)) return true;
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
          << "seed " << seed << ": " << pair.compute << " needs " << pair.transfer << "\n"
          << format_instructions(plan);
      ++checked;
    }
  }
  EXPECT_GT(checked, kPlans) << "plans without conflicts prove nothing";
}

TEST(Waits, AreForEarlierTransfersAndTransfersWaitForNone) {
  for (uint32_t seed = 0; seed < kPlans; ++seed) {
    const Plan plan = random_plan(seed);
    for (size_t i = 0; i < plan.instructions.size(); ++i) {
      const Instruction& n = plan.instructions[i];
      ASSERT_LT(n.waits_for, static_cast<int32_t>(i)) << "seed " << seed;
      if (n.waits_for < 0) continue;
      ASSERT_EQ(n.stream, StreamId::kCompute) << "seed " << seed << ", " << i;
      ASSERT_EQ(plan.instructions[static_cast<size_t>(n.waits_for)].stream, StreamId::kCommunication);
    }
  }
}

TEST(Waits, CouldNeitherBeSparedNorLowered) {
  size_t waits = 0;
  for (uint32_t seed = 0; seed < kPlans; ++seed) {
    Plan plan = random_plan(seed);
    const std::vector<Pair> pairs = conflicting_pairs(plan);
    for (size_t i = 0; i < plan.instructions.size(); ++i) {
      const int32_t wait = plan.instructions[i].waits_for;
      if (wait < 0) continue;
      for (const int32_t less : {-1, wait - 1}) {
        plan.instructions[i].waits_for = less;
        ASSERT_FALSE(all_covered(plan, pairs))
            << "seed " << seed << ": " << i << " need not wait for " << wait;
      }
      plan.instructions[i].waits_for = wait;
      ++waits;
    }
  }
  EXPECT_GT(waits, kPlans);
}

TEST(Waits, TheNewestTransferOfASlotIsKnown) {
  for (uint32_t seed = 0; seed < kPlans; ++seed) {
    const Plan plan = random_plan(seed);
    std::vector<int32_t> newest(plan.slots.size(), -1);
    for (size_t i = 0; i < plan.instructions.size(); ++i) {
      const Instruction& n = plan.instructions[i];
      if (n.stream != StreamId::kCommunication) continue;
      for (const SlotId id : n.reads) newest[static_cast<size_t>(id)] = static_cast<int32_t>(i);
      for (const SlotId id : n.writes) newest[static_cast<size_t>(id)] = static_cast<int32_t>(i);
    }
    for (size_t s = 0; s < newest.size(); ++s)
      ASSERT_EQ(plan.slots[s].last_transfer, newest[s]) << "seed " << seed << ", " << plan.slots[s].name;
  }
}

/// A transfer reads `sent`, then something is computed; returns what that waits for.
int32_t wait_of(bool writes_sent, bool reads_sent, bool held) {
  Plan plan;
  const SlotId sent = plan.add_slot({"sent", Category::kBuckets, 100});
  const SlotId next = plan.add_slot({"next", Category::kBuckets, 100});
  Instruction make, send, compute;
  make.writes = {sent};
  send.op = Op::kReduceGrad;
  send.stream = StreamId::kCommunication;
  send.reads = {sent};
  compute.writes = {next};
  if (writes_sent) compute.writes.push_back(sent);
  if (reads_sent) compute.reads.push_back(sent);
  if (held) compute.holds = {sent};
  plan.add(make), plan.add(send), plan.add(compute);
  finish(&plan);
  return plan.instructions[2].waits_for;
}

TEST(Waits, FollowFromBytesNotFromNames) {
  EXPECT_EQ(wait_of(true, false, false), 1) << "it overwrites what is being sent";
  EXPECT_EQ(wait_of(false, true, false), -1) << "two may read";
  EXPECT_EQ(wait_of(false, false, false), 1) << "another slot took the place of what is being sent";
  EXPECT_EQ(wait_of(false, false, true), -1) << "what is held keeps its place, and nobody waits";
}

}  // namespace
}  // namespace hawser::plan
