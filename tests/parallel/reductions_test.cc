// Reduction test: runs the plans of every strategy on symbols. Every gradient is reduced exactly once, after
// its last writer and before its first reader; the results are those of the serial plan; the traffic is that
// of the papers.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "tests/parallel/planned_rank.h"

namespace hawser::parallel {
namespace reductions_test {

using plan::Instruction;
using plan::Op;
using plan::Operand;
using plan::Plan;
using plan::Role;
using plan::SlotId;
using testing::all_settings;
using testing::PlannedRank;
using testing::Setting;

/// Contents of a gradient slot: how many times it contains the gradient of each micro-batch (and of the tied
/// head), on this rank, summed over a replica's ranks, and summed over all ranks.
struct Held {
  enum Level { kOwn, kShards, kAll };
  std::map<std::pair<Level, std::string>, int> times;

  void add(const Held& other, Level from, Level to) {
    for (const auto& [key, n] : other.times) {
      ASSERT_EQ(key.first, from) << "micro-batch " << key.second << " is reduced out of turn";
      times[{to, key.second}] += n;
    }
  }
};

/// Runs a train plan on symbols; returns the input of GRAD_NORM by block. Fails if the optimizer reads
/// anything else.
std::map<int32_t, Held> run_on_symbols(const Plan& plan, int64_t replicas, bool whole_needed) {
  std::map<SlotId, Held> held;
  std::map<int32_t, Held> normed;
  const bool tied = plan::find_state(plan, Role::kLookupGradient, -1) >= 0;
  const auto last = replicas > 1 ? Held::kShards : Held::kAll;
  const auto move = [&](const Instruction& n, Held::Level from, Held::Level to) {
    const std::vector<SlotId> sent = n.all(Operand::kSent), received = n.all(Operand::kReceived);
    for (size_t i = 0; i < sent.size(); ++i) {
      Held sum = n.accumulate ? held[received[i]] : Held{};
      sum.add(held.at(sent[i]), from, to);
      held[received[i]] = sum;
    }
  };
  for (const Instruction& n : plan.instructions) {
    if (n.op == Op::kLoss || n.op == Op::kBackward) {
      for (const SlotId id : n.writes()) {
        const Role role = plan.slot(id).role;
        if (role != Role::kGradients && role != Role::kLookupGradient) continue;
        if (tied && n.op == Op::kBackward && role == Role::kGradients && plan.slot(id).block == 0)
          continue;  // of positions: the table's gradients are separate until they are joined
        const bool head = n.op == Op::kLoss && plan.slot(id).block == 0;
        if (!n.accumulate) held[id] = {};
        const std::string own = (head ? "head " : "") + std::to_string(n.micro_batch);
        ++held[id].times[{Held::kOwn, own}];
      }
    } else if (n.op == Op::kJoinHeadGrad) {
      held.at(n[Operand::kGradients]).add(held.at(n[Operand::kLookupGradient]), Held::kOwn, Held::kOwn);
    } else if (n.op == Op::kReduceGrad) {
      move(n, Held::kOwn, last);
    } else if (n.op == Op::kReduceReplicas) {
      move(n, Held::kShards, Held::kAll);
    } else if (n.op == Op::kGatherGrad) {
      EXPECT_TRUE(whole_needed);
      move(n, Held::kAll, Held::kAll);
    } else if (n.op == Op::kGradNorm && n.block >= 0) {
      normed[n.block] = held.at(n[Operand::kGradients]);
    } else if (n.op == Op::kOptimizerStep) {
      EXPECT_EQ(held.at(n[Operand::kGradients]).times, normed.at(n.block).times);
    }
  }
  return normed;
}

TEST(Reductions, ReducesEveryGradientExactlyOnceAfterItsLastWriterAndBeforeItsFirstReader) {
  for (const Setting& s : all_settings()) {
    SCOPED_TRACE(s.text());
    const PlannedRank rank(s);
    if (!s.strategy.many()) continue;
    const std::map<int32_t, Held> normed =
        run_on_symbols(rank.train(), s.strategy.replicas, s.strategy.stage == 0);
    size_t blocks = 0;
    for (int32_t b = 0; b < rank.layout().blocks(); ++b) {
      if (rank.layout().block_state(b).gradient_bucket == 0) continue;
      ++blocks;
      Held expected;
      for (int32_t mb = 0; mb < s.micro_batches; ++mb) {
        expected.times[{Held::kAll, std::to_string(mb)}] = 1;
        if (b == 0 && s.tied) expected.times[{Held::kAll, "head " + std::to_string(mb)}] = 1;
      }
      EXPECT_EQ(normed.at(b).times, expected.times) << "block " << b;
    }
    EXPECT_EQ(normed.size(), blocks);
  }
}

TEST(Reductions, ReducesOncePerStepOrOncePerMicroBatch) {
  for (const Setting& s : all_settings()) {
    SCOPED_TRACE(s.text());
    if (!s.strategy.many()) continue;
    const Plan plan = PlannedRank(s).train();
    std::map<int32_t, int> reduced, across, gathered;
    for (const Instruction& n : plan.instructions)
      for (const SlotId id : n.reads()) {
        if (n.op == Op::kReduceGrad) ++reduced[plan.slot(id).block];
        if (n.op == Op::kReduceReplicas) ++across[plan.slot(id).block];
        if (n.op == Op::kGatherGrad) ++gathered[plan.slot(id).block];
      }
    const int times = s.strategy.per_micro_batch ? s.micro_batches : 1;
    for (const auto& [block, n] : reduced) {
      EXPECT_EQ(n, times) << block;
      EXPECT_EQ(across[block], s.strategy.replicas > 1 ? times : 0) << block;
      EXPECT_EQ(gathered[block], s.strategy.stage == 0 ? 1 : 0) << block;
    }
  }
}

TEST(Reductions, ComputesWhatTheSerialPlanComputesInItsOrder) {
  for (const Setting& s : all_settings()) {
    SCOPED_TRACE(s.text());
    const PlannedRank rank(s);
    using Line = std::tuple<Op, int32_t, int32_t, bool, bool>;
    const auto computed = [](const Plan& plan) {
      std::vector<Line> lines;
      for (size_t i = 0; i < plan.instructions.size(); ++i) {
        const Instruction& n = plan.instructions[i];
        if (!n.is_transfer() && n.op != Op::kReshard)
          lines.emplace_back(n.op, n.block, n.micro_batch, n.accumulate, i >= plan.commit);
      }
      return lines;
    };
    EXPECT_EQ(computed(rank.train()), computed(rank.serial_train()));
  }
}

TEST(Reductions, ChangesNothingForOneRank) {
  for (const Setting& s : all_settings()) {
    if (s.strategy.many()) continue;
    SCOPED_TRACE(s.text());
    const PlannedRank rank(s);
    const std::vector<Plan> plans = rank.all(), serial = rank.serial();
    for (size_t i = 0; i < plans.size(); ++i)
      EXPECT_EQ(plan_json(plans[i]), plan_json(testing::finished(serial[i])));
  }
}

TEST(Reductions, WhatIsBeingSentIsNotOverwrittenWithoutAWait) {
  for (const Setting& s : all_settings()) {
    SCOPED_TRACE(s.text());
    const Plan plan = PlannedRank(s).train();
    int32_t done = -1;
    for (size_t i = 0; i < plan.instructions.size(); ++i) {
      const Instruction& n = plan.instructions[i];
      done = std::max(done, n.waits_for.newest());
      if (n.is_transfer()) continue;
      for (size_t t = static_cast<size_t>(done + 1); t < i; ++t) {
        const Instruction& transfer = plan.instructions[t];
        if (!transfer.is_transfer()) continue;
        const std::vector<SlotId> sent = transfer.reads(), received = transfer.writes();
        for (const SlotId id : n.writes()) {
          EXPECT_EQ(std::count(sent.begin(), sent.end(), id), 0) << i << " and " << t;
          EXPECT_EQ(std::count(received.begin(), received.end(), id), 0) << i << " and " << t;
        }
        for (const SlotId id : n.reads())
          EXPECT_EQ(std::count(received.begin(), received.end(), id), 0) << i << " and " << t;
      }
    }
  }
}

/// Returns the bytes that a step sends, by operation.
std::map<Op, int64_t> sent(const Plan& plan) {
  std::map<Op, int64_t> bytes;
  for (const Instruction& n : plan.instructions)
    if (n.sent_bytes > 0) bytes[n.op] += n.sent_bytes;
  return bytes;
}

TEST(ReductionTraffic, EqualsTheClosedFormsOverPaddedGradients) {
  for (Setting s : all_settings()) {
    for (const DType wire : {DType::kF32, DType::kBf16}) {
      s.strategy.wire = wire;
      s.compute = wire;  // so that both types occur everywhere
      SCOPED_TRACE(s.text());
      const PlannedRank rank(s);
      const int64_t n = s.strategy.shards, r = s.strategy.replicas;
      int64_t phi = 0, updated = 0, across = 0;  // padded elements, their bytes as weights, replica pieces
      for (const nn::ParameterGroup& g : rank.table().groups()) {
        if (!g.trainable) continue;
        const int64_t shard = (((g.elements + n - 1) / n) + 63) / 64 * 64;
        phi += n * shard;
        updated += n * shard * (g.read == nn::Read::kLookup ? 4 : dtype_bytes(s.compute));
        across += (shard + r - 1) / r;
      }
      const int64_t times = s.strategy.per_micro_batch ? s.micro_batches : 1, w = dtype_bytes(wire);
      std::map<Op, int64_t> bytes = sent(rank.train());
      EXPECT_EQ(bytes[Op::kReduceGrad], times * (n - 1) * phi / n * w) << "(N-1)/N of the gradients";
      EXPECT_EQ(bytes[Op::kReduceReplicas], times * (r - 1) * across * (4 + w));
      EXPECT_EQ(bytes[Op::kGatherGrad], s.strategy.stage == 0 ? (n - 1) * phi / n * 4 : 0);
      if (s.strategy.stage == 3) continue;
      EXPECT_EQ(bytes[Op::kUnshard], s.strategy.stage == 0 ? 0 : (n - 1) * updated / n);
      if (wire == DType::kF32 && times == 1 && r == 1) {
        EXPECT_EQ(bytes[Op::kReduceGrad] + bytes[Op::kGatherGrad] + bytes[Op::kUnshard],
                  2 * (n - 1) * phi * 4 / n)
            << "DDP, ZeRO-1 and ZeRO-2 send 2 (N-1)/N bytes for each byte of gradients";
      }
    }
  }
}

TEST(ReductionMemory, WholeGradientsOfZero2StandOnlyWhileTheyAreMadeAndReduced) {
  // Buckets hold one block each, so at most two are alive: one is computed while the other is reduced. The
  // bucket of a table which the head shares lives from the loss to the end, in addition to these.
  for (const bool tied : {false, true}) {
    Setting s;
    s.strategy.stage = 2, s.strategy.shards = 4;
    s.strategy.per_micro_batch = true;
    s.strategy.bucket_bytes = s.strategy.first_bucket_bytes = 1;
    s.micro_batches = 3;
    s.layers = 12;
    s.tied = tied;
    const PlannedRank rank(s);
    const Plan plan = rank.train();
    for (int32_t i = 0; i < static_cast<int32_t>(plan.instructions.size()); ++i) {
      int alive = 0;
      for (const plan::Slot& slot : plan.slots) {
        EXPECT_FALSE(slot.role == Role::kGradients && slot.persistent);
        alive += slot.role == Role::kGradients && slot.first <= i && i <= slot.last ? 1 : 0;
      }
      EXPECT_LE(alive, tied ? 3 : 2) << "instruction " << i;
    }
    Setting ddp = s;
    ddp.strategy.stage = 0;
    EXPECT_LT(plan.peak_bytes, PlannedRank(ddp).train().peak_bytes);
  }
}

}  // namespace reductions_test
}  // namespace hawser::parallel
