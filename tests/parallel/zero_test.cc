// ZeRO test: at stages 1 and 2 updated weights are gathered once. At stage 3 every use of weights reads a
// gathered copy that exists; blocks are gathered as often, as early and as many at a time as the strategy
// specifies; one rank runs the serial plan.
#include "engine/parallel/zero.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "tests/parallel/planned_rank.h"

namespace hawser::parallel {
namespace zero_test {

using plan::Instruction;
using plan::Op;
using plan::Operand;
using plan::Plan;
using plan::Role;
using plan::SlotId;
using testing::PlannedRank;
using testing::Setting;
using testing::text_of;

Setting stage3(ReshardAfterForward reshard, int64_t prefetch, bool tied, int32_t micro_batches) {
  Setting s;
  s.strategy.stage = 3;
  s.strategy.shards = 4;
  s.strategy.reshard = reshard;
  s.strategy.reshard_group = reshard == ReshardAfterForward::kGroup ? 2 : 0;
  s.strategy.prefetch = prefetch;
  s.strategy.bucket_bytes = s.strategy.first_bucket_bytes = 1;
  s.strategy.per_micro_batch = micro_batches > 1;
  s.tied = tied;
  s.micro_batches = micro_batches;
  s.layers = 3;
  return s;
}

std::vector<Setting> all_stage3() {
  std::vector<Setting> settings;
  for (const auto reshard :
       {ReshardAfterForward::kFull, ReshardAfterForward::kKeep, ReshardAfterForward::kGroup})
    for (const int64_t prefetch : {0, 1, 2, 5})
      for (const bool tied : {false, true})
        for (const int32_t micro_batches : {1, 3})
          for (const bool frozen : {false, true}) {
            Setting s = stage3(reshard, prefetch, tied, micro_batches);
            if (frozen) s.frozen = {"embedding.*", "blocks.0.*", "blocks.1.*norm.*"};
            settings.push_back(s);
          }
  return settings;
}

bool uses_weights(const Instruction& n) {
  return n.op == Op::kForward || n.op == Op::kLoss || n.op == Op::kEvalLoss || n.op == Op::kLogits ||
         n.op == Op::kBackward;
}

bool is_gathered_copy(const Plan& plan, SlotId id) {
  return plan.slot(id).role == Role::kWeights && !plan.slot(id).persistent;
}

std::multiset<int32_t> blocks_with_role(const Plan& plan, const Instruction& n, Role role) {
  std::multiset<int32_t> blocks;
  for (const SlotId id : n.reads())
    if (plan.slot(id).role == role) blocks.insert(plan.slot(id).block);
  return blocks;
}

TEST(Zero3Plan, GathersForAnEvaluationInThisOrder) {
  Setting s = stage3(ReshardAfterForward::kFull, 1, true, 1);
  s.layers = 2;
  EXPECT_EQ(text_of(PlannedRank(s).all()[1]),
            "LOAD_MICRO_BATCH -1 0: -> batch.0\n"
            "~ UNSHARD 0 -1: weights.0 -> unsharded.0.0\n"
            "~ UNSHARD 1 -1: weights.1 -> unsharded.1.1\n"
            "FORWARD 0 0: batch.0 unsharded.0.0 -> x1.0\n"
            "~ UNSHARD 2 -1: weights.2 -> unsharded.2.2\n"
            "FORWARD 1 0: x1.0 batch.0 unsharded.1.1 -> x2.0 saved1.0\n"
            "~ UNSHARD 0 -1: weights.0 -> unsharded.0.3\n"
            "~ UNSHARD 3 -1: weights.3 -> unsharded.3.3\n"
            "FORWARD 2 0: x2.0 batch.0 unsharded.2.2 -> x3.0 saved2.0\n"
            "EVAL_LOSS 3 0: x3.0 batch.0 unsharded.3.3 unsharded.0.3 -> losses.0\n");
}

TEST(Zero3Plan, GathersForwardAndBackwardInThisOrder) {
  Setting s = stage3(ReshardAfterForward::kFull, 1, false, 1);
  s.layers = 2;
  EXPECT_EQ(text_of(PlannedRank(s).train()),
            "LOAD_MICRO_BATCH -1 0: -> batch.0\n"
            "COUNT_TOKENS -1 -1: batch.0 -> scalars\n"
            "~ UNSHARD 0 -1: weights.0 -> unsharded.0.0\n"
            "~ UNSHARD 1 -1: weights.1 -> unsharded.1.1\n"
            "FORWARD 0 0: batch.0 unsharded.0.0 -> x1.0\n"
            "~ UNSHARD 2 -1: weights.2 -> unsharded.2.2\n"
            "FORWARD 1 0: x1.0 batch.0 unsharded.1.1 -> x2.0 saved1.0\n"
            "~ UNSHARD 3 -1: weights.3 -> unsharded.3.3\n"
            "FORWARD 2 0: x2.0 batch.0 unsharded.2.2 -> x3.0 saved2.0\n"
            "~ UNSHARD 2 -1: weights.2 -> unsharded.2.4\n"
            "LOSS 3 0: x3.0 batch.0 scalars unsharded.3.3 -> losses.0 dx.0 gradients.3.0\n"
            "~ REDUCE_GRAD -1 -1 #0: gradients.3.0 -> gradient_shards.3\n"
            "~ UNSHARD 1 -1: weights.1 -> unsharded.1.5\n"
            "BACKWARD 2 0: x2.0 saved2.0 batch.0 unsharded.2.4 -> dx.0 gradients.2.0\n"
            "~ REDUCE_GRAD -1 -1 #1: gradients.2.0 -> gradient_shards.2\n"
            "BACKWARD 1 0: x1.0 saved1.0 batch.0 unsharded.1.5 -> dx.0 gradients.1.0\n"
            "~ REDUCE_GRAD -1 -1 #2: gradients.1.0 -> gradient_shards.1\n"
            "BACKWARD 0 0: batch.0 -> dx.0 gradients.0.0\n"
            "~ REDUCE_GRAD -1 -1 #3: gradients.0.0 -> gradient_shards.0\n"
            "GRAD_NORM 3 -1: gradient_shards.3 -> norm\n"
            "GRAD_NORM 2 -1: gradient_shards.2 -> norm\n"
            "GRAD_NORM 1 -1: gradient_shards.1 -> norm\n"
            "GRAD_NORM 0 -1: gradient_shards.0 -> norm\n"
            "GRAD_NORM -1 -1: norm -> norm\n"
            "durable\n"
            "OPTIMIZER_STEP 0 -1: gradient_shards.0 scalars -> weights.0 moment1.0 moment2.0\n"
            "OPTIMIZER_STEP 1 -1: gradient_shards.1 scalars -> weights.1 moment1.1 moment2.1\n"
            "OPTIMIZER_STEP 2 -1: gradient_shards.2 scalars -> weights.2 moment1.2 moment2.2\n"
            "OPTIMIZER_STEP 3 -1: gradient_shards.3 scalars -> weights.3 moment1.3 moment2.3\n");
}

TEST(Zero3Plan, GathersTheBackwardFromTheSmallerGroupInThisOrder) {
  Setting s = stage3(ReshardAfterForward::kGroup, 0, false, 1);
  s.layers = 1;
  EXPECT_EQ(text_of(PlannedRank(s).train()),
            "LOAD_MICRO_BATCH -1 0: -> batch.0\n"
            "COUNT_TOKENS -1 -1: batch.0 -> scalars\n"
            "~ UNSHARD 0 -1: weights.0 -> unsharded.0.0\n"
            "FORWARD 0 0: batch.0 unsharded.0.0 -> x1.0\n"
            "~ UNSHARD 1 -1: weights.1 -> unsharded.1.1\n"
            "FORWARD 1 0: x1.0 batch.0 unsharded.1.1 -> x2.0 saved1.0\n"
            "RESHARD 1 -1: unsharded.1.1 -> secondary.1.0\n"
            "~ UNSHARD 2 -1: weights.2 -> unsharded.2.2\n"
            "LOSS 2 0: x2.0 batch.0 scalars unsharded.2.2 -> losses.0 dx.0 gradients.2.0\n"
            "~ REDUCE_GRAD -1 -1 #0: gradients.2.0 -> gradient_shards.2\n"
            "~ UNSHARD 1 -1: secondary.1.0 -> unsharded.1.3\n"
            "BACKWARD 1 0: x1.0 saved1.0 batch.0 unsharded.1.3 -> dx.0 gradients.1.0\n"
            "~ REDUCE_GRAD -1 -1 #1: gradients.1.0 -> gradient_shards.1\n"
            "BACKWARD 0 0: batch.0 -> dx.0 gradients.0.0\n"
            "~ REDUCE_GRAD -1 -1 #2: gradients.0.0 -> gradient_shards.0\n"
            "GRAD_NORM 2 -1: gradient_shards.2 -> norm\n"
            "GRAD_NORM 1 -1: gradient_shards.1 -> norm\n"
            "GRAD_NORM 0 -1: gradient_shards.0 -> norm\n"
            "GRAD_NORM -1 -1: norm -> norm\n"
            "durable\n"
            "OPTIMIZER_STEP 0 -1: gradient_shards.0 scalars -> weights.0 moment1.0 moment2.0\n"
            "OPTIMIZER_STEP 1 -1: gradient_shards.1 scalars -> weights.1 moment1.1 moment2.1\n"
            "OPTIMIZER_STEP 2 -1: gradient_shards.2 scalars -> weights.2 moment1.2 moment2.2\n");
}

TEST(Zero3Plan, EveryUseOfWeightsReadsACopyThatIsThere) {
  for (const Setting& s : all_stage3()) {
    SCOPED_TRACE(s.text());
    const PlannedRank rank(s);
    const std::vector<Plan> plans = rank.all(), serial = rank.serial();
    for (size_t p = 0; p < plans.size(); ++p) {
      const Plan& plan = plans[p];
      std::vector<const Instruction*> serial_uses;
      for (const Instruction& n : serial[p].instructions)
        if (uses_weights(n)) serial_uses.push_back(&n);
      std::map<SlotId, int32_t> gathered;  // the transfer that gathered each slot
      size_t use = 0;
      int32_t done = -1;
      for (size_t i = 0; i < plan.instructions.size(); ++i) {
        const Instruction& n = plan.instructions[i];
        done = std::max(done, n.waits_for.newest());
        for (const SlotId id : n.writes()) {
          if (!is_gathered_copy(plan, id)) continue;
          EXPECT_EQ(n.op, Op::kUnshard) << plan.name << " " << i;
          EXPECT_TRUE(gathered.emplace(id, static_cast<int32_t>(i)).second) << plan.slot(id).name;
        }
        if (!uses_weights(n)) continue;
        const Instruction& before = *serial_uses.at(use++);
        EXPECT_EQ(blocks_with_role(plan, n, Role::kWeights),
                  blocks_with_role(serial[p], before, Role::kWeightShards))
            << plan.name << " " << i;
        EXPECT_TRUE(blocks_with_role(plan, n, Role::kWeightShards).empty()) << plan.name << " " << i;
        for (const SlotId id : n.reads()) {
          const bool there =
              !is_gathered_copy(plan, id) || (gathered.count(id) > 0 && gathered.at(id) <= done);
          EXPECT_TRUE(there) << plan.name << " " << i << " reads " << plan.slot(id).name << " too early";
        }
      }
      EXPECT_EQ(use, serial_uses.size());
    }
  }
}

/// Counts gathers by block, and the gathers from the secondary shard group among them.
std::map<int32_t, std::pair<int, int>> gathers(const Plan& plan) {
  std::map<int32_t, std::pair<int, int>> count;
  for (const Instruction& n : plan.instructions) {
    if (n.op != Op::kUnshard) continue;
    auto& [all, near] = count[n.block];
    ++all;
    near += plan.slot(n[Operand::kSent]).role == Role::kSecondary ? 1 : 0;
  }
  return count;
}

TEST(Zero3Plan, GathersEachBlockAsOftenAsItsStrategySays) {
  for (const Setting& s : all_stage3()) {
    SCOPED_TRACE(s.text());
    const PlannedRank rank(s);
    const std::vector<Plan> plans = rank.all();
    const bool keep = s.strategy.reshard == ReshardAfterForward::kKeep;
    const bool group = s.strategy.reshard == ReshardAfterForward::kGroup;
    const auto head = static_cast<int32_t>(s.layers) + 1;
    const int32_t first_trained = s.frozen.empty() ? 0 : 2;
    for (size_t p = 0; p < plans.size(); ++p) {
      const bool train = p == 0;
      const int micro_batches = train ? s.micro_batches : 1;
      const std::map<int32_t, std::pair<int, int>> count = gathers(plans[p]);
      ASSERT_EQ(count.size(), static_cast<size_t>(head) + 1) << plans[p].name;
      for (const auto& [block, times] : count) {
        // A block's second use is its backward; that of a tied embedding is the head.
        const bool twice = block == 0 ? s.tied : block < head && train && block >= first_trained;
        const int expected = twice && !keep ? 2 : 1;
        EXPECT_EQ(times.first, expected * micro_batches) << plans[p].name << ", block " << block;
        EXPECT_EQ(times.second, twice && group ? micro_batches : 0) << plans[p].name << ", block " << block;
      }
    }
  }
}

TEST(Zero3Plan, AsksForACopyAsManyUsesAheadAsItPrefetches) {
  for (const Setting& s : all_stage3()) {
    SCOPED_TRACE(s.text());
    for (const Plan& plan : PlannedRank(s).all()) {
      std::map<SlotId, size_t> asked;  // number of uses that ran before the gather was started
      std::map<SlotId, size_t> kept;   // number of uses that ran before a secondary shard was stored
      size_t uses = 0;
      for (const Instruction& n : plan.instructions) {
        if (n.op == Op::kReshard) kept[n[Operand::kSecondary]] = uses;
        if (n.op == Op::kUnshard) {
          asked[n[Operand::kReceived]] = uses;
          const bool near = plan.slot(n[Operand::kSent]).role == Role::kSecondary;
          EXPECT_TRUE(!near || kept.count(n[Operand::kSent]) > 0) << "gathered before a part was kept";
        }
        if (!uses_weights(n)) continue;
        for (const SlotId id : n.reads()) {
          if (!is_gathered_copy(plan, id) || asked.count(id) == 0) continue;
          const auto ahead = static_cast<size_t>(s.strategy.prefetch);
          size_t expected = uses > ahead ? uses - ahead : 0;
          // A gather from the secondary shard group can start once the shard is stored.
          for (const Instruction& g : plan.instructions)
            if (g.op == Op::kUnshard && g[Operand::kReceived] == id && kept.count(g[Operand::kSent]))
              expected = std::max(expected, kept.at(g[Operand::kSent]));
          EXPECT_EQ(asked.at(id), expected) << plan.name << ", " << plan.slot(id).name;
          asked.erase(id);  // only its first use counts
        }
        ++uses;
      }
      EXPECT_TRUE(asked.empty()) << plan.name << " gathers what nobody reads";
    }
  }
}

TEST(Zero3Plan, HoldsNoMoreCopiesThanItUsesAndPrefetches) {
  for (const Setting& s : all_stage3()) {
    SCOPED_TRACE(s.text());
    for (const Plan& plan : PlannedRank(s).all()) {
      const bool keep = s.strategy.reshard == ReshardAfterForward::kKeep;
      // The head of a tied model reads two blocks at once.
      int64_t most = 1 + s.strategy.prefetch + (s.tied ? 1 : 0);
      if (keep) most = s.layers + 2 + s.strategy.prefetch;
      for (int32_t i = 0; i < static_cast<int32_t>(plan.instructions.size()); ++i) {
        int64_t alive = 0;
        for (const plan::Slot& slot : plan.slots)
          alive += slot.role == Role::kWeights && !slot.persistent && slot.first <= i && i <= slot.last;
        EXPECT_LE(alive, most) << plan.name << ", instruction " << i;
      }
    }
  }
}

TEST(Zero3Plan, DepthCostsAnEvaluationShardsAlone) {
  Setting shallow = stage3(ReshardAfterForward::kFull, 1, false, 1), deep = shallow;
  deep.layers = 30;
  const Plan a = PlannedRank(shallow).all()[1], b = PlannedRank(deep).all()[1];
  EXPECT_EQ(a.peak_bytes - a.persistent_bytes, b.peak_bytes - b.persistent_bytes);
}

TEST(Zero3Traffic, IsThreeTimesTheModelForOneMicroBatch) {
  for (const Setting& s : all_stage3()) {
    SCOPED_TRACE(s.text());
    const PlannedRank rank(s);
    const Plan plan = rank.train();
    std::map<int32_t, int64_t> whole, secondary;  // padded bytes of a block
    for (const nn::ParameterGroup& g : rank.table().groups()) {
      const auto padded = [&](int64_t n) { return n * (((g.elements + n - 1) / n + 63) / 64 * 64) * 4; };
      whole[static_cast<int32_t>(g.block)] += padded(4);
      secondary[static_cast<int32_t>(g.block)] += padded(2);
    }
    int64_t expected = 0, sent = 0;
    for (const auto& [block, times] : gathers(plan))
      expected += (times.first - times.second) * whole[block] * 3 / 4 + times.second * secondary[block] / 2;
    int64_t reduced = 0;
    for (const Instruction& n : plan.instructions) {
      if (n.op == Op::kUnshard) sent += n.sent_bytes;
      if (n.op == Op::kReduceGrad) reduced += n.sent_bytes;
    }
    EXPECT_EQ(sent, expected) << "(N-1)/N of the weights for each gather";
    if (s.micro_batches > 1 || s.tied || !s.frozen.empty() ||
        s.strategy.reshard != ReshardAfterForward::kFull)
      continue;
    int64_t phi = 0;
    for (const auto& [block, bytes] : whole) phi += bytes;
    const int64_t ends = whole[0] + whole[static_cast<int32_t>(s.layers) + 1];
    EXPECT_EQ(sent + reduced, (3 * phi - ends) * 3 / 4) << "embedding and head are gathered once";
  }
}

TEST(Zero12Plan, SendsEachUpdatedBlockOnceAfterItsStep) {
  for (const Setting& s : testing::all_settings()) {
    SCOPED_TRACE(s.text());
    const PlannedRank rank(s);
    const Plan plan = rank.train();
    const bool sends = rank.layout().state_sharded() && !rank.layout().weights_sharded();
    std::set<int32_t> stepped, sent;
    for (size_t i = plan.commit; i < plan.instructions.size(); ++i) {
      const Instruction& n = plan.instructions[i];
      if (n.op == Op::kOptimizerStep) stepped.insert(n.block);
      if (n.op != Op::kUnshard) continue;
      EXPECT_TRUE(n.reads().empty()) << "shards lie in place";
      for (const SlotId id : n.writes()) {
        const plan::Slot& slot = plan.slot(id);
        EXPECT_TRUE(slot.role == Role::kWeights && slot.persistent);
        EXPECT_TRUE(stepped.count(slot.block)) << "sent before its step";
        EXPECT_TRUE(sent.insert(slot.block).second) << "sent twice";
      }
    }
    EXPECT_EQ(sent, sends ? stepped : std::set<int32_t>{});
    for (size_t i = 0; i < plan.commit && sends; ++i) EXPECT_NE(plan.instructions[i].op, Op::kUnshard);
  }
}

TEST(ZeroPlan, OnOneRankIsTheSerialPlanInstructionByInstruction) {
  for (Setting s : all_stage3()) {
    for (int64_t stage = 0; stage <= 3; ++stage) {
      s.strategy.stage = stage;
      s.strategy.shards = 1;
      s.strategy.reshard = ReshardAfterForward::kFull, s.strategy.reshard_group = 0;
      SCOPED_TRACE(s.text());
      Setting plain;
      plain.tied = s.tied, plain.micro_batches = s.micro_batches, plain.layers = s.layers;
      plain.frozen = s.frozen;
      const PlannedRank rank(s), serial(plain);
      const std::vector<Plan> plans = rank.all(), expected = serial.serial();
      for (size_t i = 0; i < plans.size(); ++i)
        EXPECT_EQ(plan_json(plans[i]), plan_json(testing::finished(expected[i])));
    }
  }
}

}  // namespace zero_test
}  // namespace hawser::parallel
