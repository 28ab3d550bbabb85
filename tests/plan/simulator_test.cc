// Tests the simulator: plans computed by hand, and plans that it rejects.
#include "engine/plan/simulator.h"

#include <gtest/gtest.h>

#include <limits>

#include "engine/base/error.h"
#include "tests/plan/simulator_case.h"

namespace hawser::plan {
namespace simulator_test {

TEST(Simulator, ASerialPlanTakesTheSumOfItsInstructions) {
  Case c;
  c.compute(2), c.compute(3), c.compute(0.5);
  const Overlap o = c.overlap();
  EXPECT_EQ(o.makespan, 5.5);
  EXPECT_EQ(o.compute_busy, 5.5);
  EXPECT_EQ(o.communication_busy, 0);
  EXPECT_EQ(o.exposed, 0);
  EXPECT_EQ(o.hidden_share(), 1);
  EXPECT_TRUE(c.run().waits.empty());
}

TEST(Simulator, ATransferRunsBesideWhatFollowsUntilItIsNeeded) {
  Case c;
  c.compute(1);
  const int32_t sum = c.transfer(5);  // 1..6
  c.compute(3, -1, Op::kBackward);    // 1..4
  c.compute(2, sum);                  // waits 4..6, runs 6..8
  const Timeline line = c.run();
  EXPECT_EQ(line.times[1].begin, 1);
  EXPECT_EQ(line.times[1].end, 6);
  EXPECT_EQ(line.times[2].end, 4);
  EXPECT_EQ(line.times[3].ready, 4);
  EXPECT_EQ(line.times[3].begin, 6);
  EXPECT_EQ(line.times[3].end, 8);
  ASSERT_EQ(line.waits.size(), 1u);
  EXPECT_EQ(line.waits[0].instruction, 3u);
  EXPECT_EQ(line.waits[0].begin, 4);
  EXPECT_EQ(line.waits[0].end, 6);
  const Overlap o = c.overlap();
  EXPECT_EQ(o.makespan, 8);
  EXPECT_EQ(o.communication_busy, 5);
  EXPECT_EQ(o.exposed, 2);
  EXPECT_EQ(o.hidden, 3);
  EXPECT_EQ(o.behind_backward, 3);
  EXPECT_EQ(o.hidden_share(), 0.6);
}

TEST(Simulator, TransfersRunOneAfterTheOtherWithTheirLatency) {
  Case c;
  c.costs.latency = 0.5;
  const int32_t first = c.transfer(2);   // 0..2.5
  const int32_t second = c.transfer(1);  // 2.5..4
  c.compute(1, first);                   // 2.5..3.5
  c.compute(1, second);                  // 4..5
  const Timeline line = c.run();
  EXPECT_EQ(line.times[1].begin, 2.5);
  EXPECT_EQ(line.times[1].end, 4);
  EXPECT_EQ(line.times[2].begin, 2.5);
  EXPECT_EQ(line.times[3].begin, 4);
  EXPECT_EQ(overlap_of(c.plan, line).exposed, 3);
  EXPECT_EQ(overlap_of(c.plan, line).hidden, 1);
}

TEST(Simulator, BothHalvesEndWithEveryTransferDone) {
  Case c;
  c.transfer(4);  // 0..4
  c.compute(1);   // 0..1
  c.commit_here();
  c.compute(1);   // 4..5
  c.transfer(2);  // 5..7
  Timeline line = c.run();
  EXPECT_EQ(line.times[2].ready, 4);
  EXPECT_EQ(line.times[2].end, 5);
  ASSERT_EQ(line.waits.size(), 2u);
  EXPECT_EQ(line.waits[0].instruction, c.plan.commit);
  EXPECT_EQ(line.waits[1].instruction, c.plan.instructions.size());
  EXPECT_EQ(line.waits[1].begin, 5);
  EXPECT_EQ(line.waits[1].end, 7);
  EXPECT_EQ(overlap_of(c.plan, line).makespan, 7);
  // As in measured timelines, the rank notices the end of the transfer some time later, and only then is the
  // step over.
  line.waits[1].end = 8;
  EXPECT_EQ(overlap_of(c.plan, line).makespan, 8);
  EXPECT_EQ(overlap_of(c.plan, line).exposed, 3 + 3);
}

TEST(Simulator, WhatMeetsOthersTakesItsTurnBehindTransfers) {
  Case c;
  c.transfer(3);    // 0..3
  c.compute(1);     // 0..1
  c.meeting(2, 1);  // sends 3..4, runs 4..6
  const Timeline line = c.run();
  EXPECT_EQ(line.times[2].ready, 1);
  EXPECT_EQ(line.times[2].sent_begin, 3);
  EXPECT_EQ(line.times[2].sent_end, 4);
  EXPECT_EQ(line.times[2].begin, 4);
  EXPECT_EQ(line.times[2].end, 6);
  const Overlap o = overlap_of(c.plan, line);
  EXPECT_EQ(o.exposed, 3);
  EXPECT_EQ(o.communication_busy, 4);
  EXPECT_EQ(o.hidden, 1);
}

TEST(Simulator, AllRanksWaitForTheSlowest) {
  Case c;
  c.compute(1);
  const int32_t sum = c.transfer(2);
  c.compute(1, sum);
  CostTable slow = c.costs;
  slow.seconds[0] = 4;
  const std::vector<Timeline> lines = simulate(c.plan, {c.costs, slow});
  ASSERT_EQ(lines.size(), 2u);
  for (const Timeline& line : lines) {
    EXPECT_EQ(line.times[1].begin, 4);
    EXPECT_EQ(line.times[2].begin, 6);
  }
  EXPECT_EQ(lines[0].times[1].ready, 1);
  EXPECT_EQ(overlap_of(c.plan, lines[0]).exposed, 5);
  EXPECT_EQ(overlap_of(c.plan, lines[1]).exposed, 2);
  slow.seconds[0] = 1, slow.bytes_per_second = 0.25;
  EXPECT_EQ(simulate(c.plan, {c.costs, slow})[0].times[1].end, 9);
}

TEST(Simulator, RatesCostWhatTheySay) {
  Case c;
  c.compute(0), c.compute(0);
  c.costs.seconds.clear();
  c.plan.instructions[0].flops = 8;
  c.costs.seconds_per_flop = 0.25, c.costs.seconds_per_instruction = 1;
  EXPECT_EQ(c.overlap().makespan, 4);
}

TEST(Simulator, LanesRunBesideEachOtherAndAnInstructionWaitsForEach) {
  Case c;
  const int32_t gradients = c.transfer(6);                              // 0..6
  const int32_t activations = c.transfer(2, -1, Lane::kXFromPrevious);  // 0..2
  const int32_t more = c.transfer(3, -1, Lane::kXFromPrevious);         // 2..5
  c.compute(1, activations);                                            // 2..3
  const int32_t both = c.compute(1, gradients);
  c.wait(both, more);                                               // 6..7
  const int32_t sent = c.transfer(1, activations, Lane::kXToNext);  // 7..8: its lane is free
  c.compute(1, sent);                                               // 8..9
  const Timeline line = c.run();
  EXPECT_EQ(line.times[1].begin, 0) << "no lane waits for another";
  EXPECT_EQ(line.times[2].begin, 2);
  EXPECT_EQ(line.times[2].end, 5);
  EXPECT_EQ(line.times[3].begin, 2);
  EXPECT_EQ(line.times[4].begin, 6) << "the later of the two";
  EXPECT_EQ(line.times[5].begin, 7);
  EXPECT_EQ(line.times[6].end, 9);
  const Overlap o = overlap_of(c.plan, line);
  EXPECT_EQ(o.communication_busy, 7) << "0..6 and 7..8, however many lanes are busy";
  EXPECT_EQ(o.exposed, 6);
  EXPECT_EQ(o.hidden, 1);
}

/// Two ranks each receive before they send, so every lane waits for a later transfer of another lane.
TEST(Simulator, SaysWhyAPlanOfTwoLanesWouldStopForEver) {
  Case c;
  c.compute(1);
  const int32_t receive = c.transfer(1, -1, Lane::kXFromPrevious);
  const int32_t send = c.transfer(1, receive, Lane::kXToNext);
  c.wait(receive, send);
  try {
    c.run();
    FAIL() << "it ran";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kInternal);
    EXPECT_NE(e.message().find("instruction 1 (REDUCE_GRAD) waits for instruction 2, which does not precede "
                               "it: the plan would deadlock"),
              std::string::npos)
        << e.message();
  }
}

TEST(Simulator, RefusesAWaitForTheWrongLane) {
  Case c;
  const int32_t sum = c.transfer(1);
  c.compute(1);
  c.plan.instructions[1].waits_for[Lane::kXToNext] = sum;
  EXPECT_THROW(c.run(), Error);
}

TEST(Simulator, RefusesPlansThatCannotRun) {
  const auto code_of = [](const Case& c) {
    try {
      c.run();
    } catch (const Error& e) {
      EXPECT_NE(e.message().find("instruction 1"), std::string::npos) << e.message();
      return e.code();
    }
    return Code::kOk;
  };
  Case later;
  later.compute(1), later.compute(1, 2), later.transfer(1);
  EXPECT_EQ(code_of(later), Code::kInternal);
  Case itself;
  itself.compute(1), itself.transfer(1, 1);
  EXPECT_EQ(code_of(itself), Code::kInternal);
  Case no_transfer;
  no_transfer.compute(1), no_transfer.compute(1, 0);
  EXPECT_EQ(code_of(no_transfer), Code::kInternal);
}

ExchangeNote note(double flops, int64_t bytes, double hiding_flops) {
  ExchangeNote n{"tp", "all_reduce", bytes, flops, false};
  n.hiding_flops = hiding_flops;
  return n;
}

/// One second for each FLOP and byte. Of 13 seconds of exchanges, 4 are awaited.
TEST(Simulator, AnInstructionComputesDuringTheExchangesOfItsChunks) {
  Case c;
  c.compute(12);
  c.costs.exchange_bytes_per_second = 1;
  plan::Instruction& n = c.plan.instructions[0];
  n.flops = 12, n.sent_bytes = 13;
  n.exchanges = {note(1, 2, 0),                         // computes 0..1, waits until 3
                 note(2, 4, ExchangeNote::kUntilNext),  // computes 3..5, runs 5..9
                 note(3, 4, ExchangeNote::kUntilNext),  // computes 5..8, runs 9..13
                 note(2, 3, 4)};                        // computes 8..10, runs 13..16; computes 10..14
  EXPECT_EQ(c.costs.exposed_seconds(n, 12), (std::vector<double>{2, 0, 0, 2}));
  const Timeline line = c.run();
  EXPECT_EQ(line.times[0].end, 16);
  EXPECT_EQ(line.times[0].exchanging, 4);
  EXPECT_EQ(line.times[0].beside, 13 - 4);
  // If it computes twice as fast, in 6 seconds, it waits longer.
  c.costs.seconds[0] = 6;
  EXPECT_EQ(c.run().times[0].end, 2.5 + 1 + 4 + 4 + 3);
}

TEST(Simulator, RefusesCostsThatMakeNoSense) {
  const auto refuses = [](auto change) {
    Case c;
    c.compute(1), c.transfer(1);
    change(c.costs);
    try {
      c.run();
    } catch (const Error& e) {
      return e.code() == Code::kInvalidArgument;
    }
    return false;
  };
  EXPECT_FALSE(refuses([](CostTable&) {}));
  EXPECT_TRUE(refuses([](CostTable& t) { t.seconds.pop_back(); }));
  EXPECT_TRUE(refuses([](CostTable& t) { t.seconds[0] = -1; }));
  EXPECT_TRUE(refuses([](CostTable& t) { t.latency = std::numeric_limits<double>::quiet_NaN(); }));
  EXPECT_TRUE(refuses([](CostTable& t) { t.bytes_per_second = 0; }));
  EXPECT_TRUE(refuses([](CostTable& t) { t.seconds_per_flop = -1; }));
}

}  // namespace simulator_test
}  // namespace hawser::plan
