// The simulator: plans computed by hand, random plans against a clock that ticks and looks at both streams at
// every tick, and what must hold of any plan.
#include "engine/plan/simulator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <random>

#include "engine/base/error.h"

namespace hawser::plan {
namespace {

/// Plans and their costs, an instruction at a time. Seconds of transfers are their bytes at 1 byte per
/// second.
struct Case {
  Plan plan;
  CostTable costs;

  Case() { costs.bytes_per_second = 1; }
  int32_t compute(double seconds, int32_t waits_for = -1, Op op = Op::kForward) {
    return add(op, Lane::kCompute, seconds, 0, waits_for);
  }
  int32_t transfer(int64_t bytes, int32_t waits_for = -1, Lane lane = Lane::kDataParallel) {
    return add(Op::kReduceGrad, lane, 0, bytes, waits_for);
  }
  int32_t meeting(double seconds, int64_t bytes, int32_t waits_for = -1) {
    return add(Op::kGradNorm, Lane::kCompute, seconds, bytes, waits_for);
  }
  /// Waits of instruction `i` beside the one that it was made with.
  void wait(int32_t i, int32_t for_transfer) {
    plan.instructions[static_cast<size_t>(i)].waits_for[lane_of(for_transfer)] = for_transfer;
  }
  void commit_here() { plan.commit = plan.instructions.size(); }
  Timeline run() const { return simulate(plan, costs); }
  Overlap overlap() const { return overlap_of(plan, run()); }

 private:
  /// Of a transfer; where there is none yet, that of data parallelism.
  Lane lane_of(int32_t i) const {
    const auto at = static_cast<size_t>(i);
    const bool there = at < plan.instructions.size() && plan.instructions[at].is_transfer();
    return there ? plan.instructions[at].lane : Lane::kDataParallel;
  }
  int32_t add(Op op, Lane lane, double seconds, int64_t bytes, int32_t waits_for) {
    Instruction n;
    n.op = op, n.lane = lane, n.sent_bytes = bytes;
    if (waits_for >= 0) n.waits_for[lane_of(waits_for)] = waits_for;
    plan.instructions.push_back(n);
    costs.seconds.push_back(seconds);
    return static_cast<int32_t>(plan.instructions.size()) - 1;
  }
};

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
  c.compute(2, sum);                  // stands still 4..6, runs 6..8
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
  // As measured: who waited is told a while after the transfer has ended, and only then is the step over.
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
  const int32_t gradients = c.transfer(6);                             // 0..6
  const int32_t activations = c.transfer(2, -1, Lane::kFromPrevious);  // 0..2
  const int32_t more = c.transfer(3, -1, Lane::kFromPrevious);         // 2..5
  c.compute(1, activations);                                           // 2..3
  const int32_t both = c.compute(1, gradients);
  c.wait(both, more);                                              // 6..7
  const int32_t sent = c.transfer(1, activations, Lane::kToNext);  // 7..8: its lane is free
  c.compute(1, sent);                                              // 8..9
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

/// Two ranks that each want to receive before they send: every lane waits for another's later transfer.
TEST(Simulator, SaysWhyAPlanOfTwoLanesWouldStopForEver) {
  Case c;
  c.compute(1);
  const int32_t receive = c.transfer(1, -1, Lane::kFromPrevious);
  const int32_t send = c.transfer(1, receive, Lane::kToNext);
  c.wait(receive, send);
  try {
    c.run();
    FAIL() << "it ran";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kInternal);
    EXPECT_NE(
        e.message().find("instruction 1 (REDUCE_GRAD) waits for instruction 2, which comes no earlier: it "
                         "would stop for ever"),
        std::string::npos)
        << e.message();
  }
}

TEST(Simulator, RefusesAWaitForTheWrongLane) {
  Case c;
  const int32_t sum = c.transfer(1);
  c.compute(1);
  c.plan.instructions[1].waits_for[Lane::kToNext] = sum;
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

// ---------------------------------------------------------------------------------------- random plans

Case random_case(std::mt19937_64* random) {
  const auto below = [&](int64_t n) { return static_cast<int64_t>((*random)() % static_cast<uint64_t>(n)); };
  Case c;
  c.costs.latency = static_cast<double>(below(3));
  std::vector<int32_t> transfers;
  const int64_t count = 1 + below(40), lanes = 1 + below(3);
  const int64_t commit = below(count + 1);
  for (int64_t i = 0; i < count; ++i) {
    if (i == commit) c.commit_here();
    const int32_t wait = transfers.empty() || below(3) > 0
                             ? -1
                             : transfers[static_cast<size_t>(below(static_cast<int64_t>(transfers.size())))];
    switch (below(8)) {
      case 0:
        c.meeting(static_cast<double>(below(3)), 1 + below(3), wait);
        break;
      case 1:
      case 2:
      case 3:
        transfers.push_back(c.transfer(below(7), wait, static_cast<Lane>(1 + below(lanes))));
        break;
      default:
        c.compute(static_cast<double>(below(6)), wait, below(2) ? Op::kBackward : Op::kForward);
    }
  }
  if (commit == count) c.commit_here();
  return c;
}

/// All lanes as they stand at one tick of the clock; all costs are whole ticks. It knows the model only as
/// the header tells it.
class Clock {
 public:
  explicit Clock(const Case& c) : plan_(c.plan), costs_(c.costs), times_(c.plan.instructions.size()) {
    sent_.assign(times_.size(), false);
  }

  std::vector<Times> run() {
    while (at_ < times_.size() || in_flight()) {
      while (communication_turns() || compute_turn()) {
      }
      ++now_;
    }
    return times_;
  }

 private:
  struct Queue {
    std::vector<size_t> waiting;  // the first is on its way if `sending`
    bool sending = false;
  };

  bool in_flight() const {
    return std::any_of(queues_.begin(), queues_.end(), [](const Queue& q) { return !q.waiting.empty(); });
  }
  bool communication_turns() {
    return std::any_of(queues_.begin(), queues_.end(), [&](Queue& q) { return communication_turn(&q); });
  }

  /// Each turn is one event at this tick; false: nothing happens any more before the next.
  bool communication_turn(Queue* queue) {
    if (queue->waiting.empty()) return false;
    const size_t first = queue->waiting.front();
    Times& t = times_[first];
    if (!queue->sending) {
      queue->sending = true, t.sent_begin = now_;
      return true;
    }
    const auto bytes = static_cast<double>(plan_.instructions[first].sent_bytes);
    if (now_ < t.sent_begin + costs_.latency + bytes) return false;
    t.sent_end = now_, sent_[first] = true, queue->sending = false;
    queue->waiting.erase(queue->waiting.begin());
    return true;
  }

  bool waits(const Instruction& n) const {
    for (size_t l = 0; l < kLanes; ++l)
      if (const int32_t at = n.waits_for[static_cast<Lane>(l)]; at >= 0 && !sent_[static_cast<size_t>(at)])
        return true;
    return false;
  }

  bool compute_turn() {
    if (at_ == times_.size()) return false;
    const Instruction& n = plan_.instructions[at_];
    Times& t = times_[at_];
    switch (state_) {
      case State::kNew:
        if (at_ == plan_.commit && in_flight()) return false;
        t.ready = now_, state_ = State::kWaiting;
        return true;
      case State::kWaiting:
        if (waits(n)) return false;
        if (n.sent_bytes > 0 || n.is_transfer())
          queues_[static_cast<size_t>(n.is_transfer() ? n.lane : Lane::kDataParallel)].waiting.push_back(at_);
        if (n.is_transfer()) return next();
        state_ = State::kMeeting;
        return true;
      case State::kMeeting:
        if (n.sent_bytes > 0 && !sent_[at_]) return false;
        t.begin = now_, state_ = State::kRunning;
        return true;
      case State::kRunning:
        if (now_ < t.begin + costs_.seconds[at_]) return false;
        t.end = now_;
        return next();
    }
    return false;
  }

  bool next() {
    ++at_, state_ = State::kNew;
    return true;
  }

  enum class State { kNew, kWaiting, kMeeting, kRunning };
  const Plan& plan_;
  const CostTable& costs_;
  std::vector<Times> times_;
  std::vector<bool> sent_;
  std::array<Queue, kLanes> queues_;
  size_t at_ = 0;
  State state_ = State::kNew;
  double now_ = 0;
};

class RandomPlans : public ::testing::Test {
 protected:
  static uint64_t seed() {
    std::random_device device;
    return device();
  }
};

TEST_F(RandomPlans, RunAsTheTickingClockSays) {
  const uint64_t first = seed();
  for (uint64_t k = 0; k < 2000; ++k) {
    SCOPED_TRACE("seed " + std::to_string(first + k));
    std::mt19937_64 random(first + k);
    const Case c = random_case(&random);
    const Timeline line = c.run();
    const std::vector<Times> expected = Clock(c).run();
    for (size_t i = 0; i < expected.size(); ++i) {
      const bool transfer = c.plan.instructions[i].is_transfer();
      EXPECT_EQ(line.times[i].ready, expected[i].ready) << i;
      EXPECT_EQ(line.times[i].begin, transfer ? expected[i].sent_begin : expected[i].begin) << i;
      EXPECT_EQ(line.times[i].end, transfer ? expected[i].sent_end : expected[i].end) << i;
      if (transfer || meets_others(c.plan.instructions[i])) {
        EXPECT_EQ(line.times[i].sent_begin, expected[i].sent_begin) << i;
        EXPECT_EQ(line.times[i].sent_end, expected[i].sent_end) << i;
      }
    }
    if (HasFailure()) return;
  }
}

TEST_F(RandomPlans, TheSumsAgreeWithEachOther) {
  const uint64_t first = seed();
  for (uint64_t k = 0; k < 2000; ++k) {
    SCOPED_TRACE("seed " + std::to_string(first + k));
    std::mt19937_64 random(first + k);
    const Case c = random_case(&random);
    const Overlap o = c.overlap();
    // The compute lane runs or stands still, and stands still only while something is on its way.
    EXPECT_EQ(o.makespan, o.compute_busy + o.exposed);
    EXPECT_EQ(o.communication_busy, o.hidden + o.exposed);
    EXPECT_LE(o.behind_backward, o.hidden);
    EXPECT_GE(o.makespan, std::max(o.compute_busy, o.communication_busy));
    if (HasFailure()) return;
  }
}

TEST_F(RandomPlans, NothingGetsFasterByCostingMore) {
  const uint64_t first = seed();
  for (uint64_t k = 0; k < 2000; ++k) {
    SCOPED_TRACE("seed " + std::to_string(first + k));
    std::mt19937_64 random(first + k);
    Case c = random_case(&random);
    const double before = c.overlap().makespan;
    const auto now = [&] { return c.overlap().makespan; };
    c.costs.seconds[random() % c.costs.seconds.size()] += 1;
    const double slower = now();
    EXPECT_GE(slower, before);
    c.costs.latency += 1;
    const double later = now();
    EXPECT_GE(later, slower);
    c.costs.bytes_per_second /= 2;
    const double narrower = now();
    EXPECT_GE(narrower, later);
    for (Instruction& n : c.plan.instructions) n.waits_for = LaneMarks();
    EXPECT_LE(now(), narrower);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace hawser::plan
