// Simulator case: builds plans and their costs for tests of the simulator, one instruction at a time. A
// transfer takes one second for each byte.
#pragma once

#include <cstdint>

#include "engine/plan/simulator.h"

namespace hawser::plan {

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
  /// Makes instruction `i` wait for one more transfer.
  void wait(int32_t i, int32_t for_transfer) {
    plan.instructions[static_cast<size_t>(i)].waits_for[lane_of(for_transfer)] = for_transfer;
  }
  void commit_here() { plan.commit = plan.instructions.size(); }
  Timeline run() const { return simulate(plan, costs); }
  Overlap overlap() const { return overlap_of(plan, run()); }

 private:
  /// Returns the lane of a transfer; kDataParallel if there is none at `i` yet.
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

}  // namespace hawser::plan
