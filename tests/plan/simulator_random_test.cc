// Tests the simulator on random plans: against a clock that checks all lanes at every tick, and by properties
// that must hold for any plan.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>

#include "engine/base/error.h"
#include "tests/plan/simulator_case.h"

namespace hawser::plan {
namespace simulator_random_test {

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

/// The state of all lanes at one tick of the clock; all costs are integer ticks. It implements the model only
/// by its description in the header.
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
    std::vector<size_t> waiting;  // the first is in progress if `sending`
    bool sending = false;
  };

  bool in_flight() const {
    return std::any_of(queues_.begin(), queues_.end(), [](const Queue& q) { return !q.waiting.empty(); });
  }
  bool communication_turns() {
    return std::any_of(queues_.begin(), queues_.end(), [&](Queue& q) { return communication_turn(&q); });
  }

  /// Performs one event at this tick; returns false if nothing more happens before the next tick.
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
      if (transfer || starts_with_collective(c.plan.instructions[i])) {
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
    // The compute lane either runs or waits, and waits only while a transfer is in progress.
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

}  // namespace simulator_random_test
}  // namespace hawser::plan
