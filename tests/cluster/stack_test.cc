// Tests the terms of a stack: what each changes in the costs of a plan, and that the defaults change nothing.
#include "engine/cluster/stack.h"

#include <gtest/gtest.h>

#include <map>

#include "engine/cluster/stage_costs.h"
#include "tests/cluster/planned_stages.h"

namespace hawser::testing {
namespace stack_test {

using cluster::Cluster, cluster::Stack;

Cluster with(double Stack::*term, double value, const Cluster& base = plain_cluster(2)) {
  Cluster c = base;
  c.stack.name = "another";
  c.stack.*term = value;
  return c;
}

/// A pipeline of data-parallel ranks that recompute.
Layout layout() {
  Layout l;
  l.pp = 2, l.dp_shard = 2, l.accumulation = 4, l.tp = 2;
  l.recompute = R"({"policy": "full"})";
  return l;
}

Problem problem() {
  Problem p;
  p.layers = 4;
  return p;
}

double seconds(const Cluster& c, const PlannedStages& planned) {
  return foretell(c, planned.problems()).seconds;
}

TEST(Stack, TheDefaultsChangeOnlyTheWayOfSums) {
  const PlannedStages planned(problem(), layout());
  Cluster c = plain_cluster(2);
  c.stack.name = "another";
  const plan::CostTable own = stage_costs(plain_cluster(2), planned.problems().front());
  const plan::CostTable other = stage_costs(c, planned.problems().front());
  EXPECT_EQ(own.seconds, other.seconds);
  EXPECT_EQ(plain_cluster(2).topology().ring_sums, false);
  EXPECT_EQ(c.topology().ring_sums, true);
}

TEST(Stack, EveryTermCostsTime) {
  const PlannedStages planned(problem(), layout());
  Cluster base = plain_cluster(2);
  base.stack.name = "another";
  const double before = seconds(base, planned);
  for (const auto& [term, value] : {std::pair{&Stack::stream_bytes, 2.0},
                                    {&Stack::exchange_bytes, 2},
                                    {&Stack::message_bytes, 20},
                                    {&Stack::gradient_bytes, 2},
                                    {&Stack::message_seconds, 1},
                                    {&Stack::overlap, 0},
                                    {&Stack::recompute, 1},
                                    {&Stack::attention_forward, 50},
                                    {&Stack::attention_backward, 50},
                                    {&Stack::score_bytes_forward, 1000},
                                    {&Stack::score_bytes_backward, 1000}})
    EXPECT_GT(seconds(with(term, value, base), planned), before) << value;
}

TEST(Stack, ScoresAndGelusAreCallsOfTheirOwn) {
  Stack stack;
  stack.attention_forward = 2, stack.attention_backward = 1.6;
  stack.score_bytes_forward = 22, stack.score_bytes_backward = 34;
  stack.gelu_bytes_forward = 4, stack.gelu_bytes_backward = 6, stack.stream_bytes = 0.5;
  KernelCalls calls;
  calls.kernel = "attention_forward", calls.length = 8, calls.head_dim = 16, calls.calls = 3;
  calls.flops = 4 * 16 * 100, calls.bytes = 7;
  WorkList list = in_stack(stack, calls);
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0].flops, 2 * calls.flops);
  EXPECT_EQ(list[0].bytes, 7);
  EXPECT_EQ(list[1].bytes, 22 * 100);
  EXPECT_EQ(list[1].flops, 0);
  EXPECT_EQ(list[1].calls, 3);
  calls.kernel = "attention_backward", calls.flops = 10 * 16 * 100;
  list = in_stack(stack, calls);
  EXPECT_EQ(list[0].flops, 1.6 * calls.flops);
  EXPECT_EQ(list[1].bytes, 34 * 100);
  KernelCalls gelu;
  gelu.kernel = "matmul_gelu", gelu.m = 10, gelu.n = 20, gelu.k = 30, gelu.calls = 2, gelu.flops = 1;
  EXPECT_EQ(in_stack(stack, gelu).at(1).bytes, 4 * 10 * 20 * 2);
  gelu.kernel = "matmul_gelu_backward";
  EXPECT_EQ(in_stack(stack, gelu).at(1).bytes, 6 * 10 * 20 * 2);
  KernelCalls norm;
  norm.kernel = "norm_forward", norm.bytes = 10;
  EXPECT_EQ(in_stack(stack, norm).at(0).bytes, 5);
  norm.kernel = "adamw";
  EXPECT_EQ(in_stack(stack, norm).at(0).bytes, 10);
}

/// Sums that are not overlapped take as long as they did on their lane, after the last backward.
TEST(Stack, SumsWithoutOverlapFollowTheLastBackward) {
  Layout l;
  l.dp_shard = 4, l.accumulation = 2;
  const PlannedStages planned(problem(), l);
  Cluster c = plain_cluster(2);
  c.stack.name = "another";
  const plan::Plan& plan = planned.stages.front().train;
  const plan::CostTable beside = stage_costs(c, planned.problems().front());
  c.stack.overlap = 0;
  const plan::CostTable alone = stage_costs(c, planned.problems().front());
  double sums = 0, moved = 0;
  size_t first_norm = plan.instructions.size();
  for (size_t i = 0; i < plan.instructions.size(); ++i) {
    const plan::Instruction& n = plan.instructions[i];
    if (n.op == plan::Op::kGradNorm) first_norm = std::min(first_norm, i);
    if (!n.is_transfer()) moved += alone.seconds[i] - beside.seconds[i];
    if (!n.is_transfer() || i >= plan.commit) continue;
    sums += beside.transfer_seconds[i];
    EXPECT_EQ(alone.transfer_seconds[i], 0);
  }
  EXPECT_GT(sums, 0);
  EXPECT_NEAR(moved, sums, 1e-9 * sums);
  EXPECT_GT(alone.seconds[first_norm], beside.seconds[first_norm]);
}

/// With the term, a recomputation takes as long as the forward.
TEST(Stack, RecomputationsRepeatTheForward) {
  const PlannedStages planned(problem(), layout());
  const plan::Plan& plan = planned.stages.front().train;
  const plan::CostTable costs = stage_costs(with(&Stack::recompute, 1), planned.problems().front());
  std::map<int64_t, double> forwards;
  int compared = 0;
  for (size_t i = 0; i < plan.instructions.size(); ++i) {
    const plan::Instruction& n = plan.instructions[i];
    double all = costs.seconds[i];
    for (const ExchangeNote& note : n.exchanges) all += costs.exchange_seconds(note);
    if (n.op == plan::Op::kForward) forwards.emplace(n.block, all);
    if (n.op != plan::Op::kRecompute) continue;
    ++compared;
    EXPECT_NEAR(all, forwards.at(n.block), 1e-9 * all);
  }
  EXPECT_GT(compared, 0);
}

/// A message costs its sender and its receiver the stated seconds.
TEST(Stack, MessagesStopBothStages) {
  const PlannedStages planned(problem(), layout());
  const plan::CostTable costs = stage_costs(with(&Stack::message_seconds, 0.25), planned.problems().front());
  const plan::Plan& plan = planned.stages.front().train;
  int messages = 0;
  for (size_t i = 0; i < plan.instructions.size(); ++i) {
    if (!plan::is_message(plan.instructions[i].op)) continue;
    ++messages;
    EXPECT_EQ(costs.seconds[i], 0.25);
  }
  EXPECT_GE(messages, 8);
}

}  // namespace stack_test
}  // namespace hawser::testing
