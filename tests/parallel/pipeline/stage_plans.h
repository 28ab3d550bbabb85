// Stage plans: make the plans of all stages of a pipeline of small blocks, one per chunk, and their costs in
// the simulator.
#pragma once

#include <vector>

#include "engine/parallel/pipeline/stages.h"
#include "engine/plan/deadlock.h"
#include "engine/plan/serial.h"
#include "engine/plan/simulator.h"
#include "tests/parallel/pipeline/play.h"

namespace hawser::testing {

/// Returns byte counts that distinguish the kinds of slots.
inline plan::Sizes stage_sizes(int64_t blocks, bool halves) {
  plan::Sizes s;
  plan::BlockState state;
  state.weights = state.gradients = state.gradient_bucket = state.states[plan::kFirstMoment] = 64;
  s.state.assign(static_cast<size_t>(blocks) + 2, state);
  s.halves = halves;
  s.scalars = s.norm = s.norm_workspace = s.batch = s.losses = 64;
  s.residual = s.dx = 128;
  plan::Cost block;
  block.workspace = 64, block.saved = 512, block.kept = halves ? 192 : 0, block.made = halves ? 256 : 0;
  for (auto* costs : {&s.block_forward, &s.block_backward, &s.block_backward_input, &s.block_backward_weight})
    costs->assign(static_cast<size_t>(blocks), block);
  return s;
}

inline std::vector<const plan::Plan*> pointers_to(const std::vector<plan::Plan>& plans) {
  std::vector<const plan::Plan*> pointers;
  for (const plan::Plan& plan : plans) pointers.push_back(&plan);
  return pointers;
}

/// Returns the plans of a training step, or of an evaluation.
inline std::vector<plan::Plan> stage_plans(const parallel::pipeline::Shape& shape,
                                           size_t sent_lifetime_actions, bool evaluates = false) {
  const std::vector<int64_t> layers(static_cast<size_t>(shape.stages * shape.chunks), 1);
  const plan::Sizes sizes =
      stage_sizes(shape.stages * shape.chunks, parallel::pipeline::splits_backward(shape.schedule));
  std::vector<plan::Plan> plans;
  for (int64_t stage = 0; stage < shape.stages; ++stage) {
    plan::Stage own = parallel::pipeline::make_stage(shape, layers, stage);
    own.sent_lifetime_actions = sent_lifetime_actions;
    plan::Sizes here = sizes;
    for (size_t block = 0; block < here.state.size(); ++block)
      if (!own.has(static_cast<int32_t>(block))) here.state[block] = {};
    const auto micro_batches = static_cast<int32_t>(shape.micro_batches);
    plans.push_back(evaluates ? plan::eval_pipeline_plan(here, own, micro_batches)
                              : plan::train_plan(here, own, micro_batches, plan::Accumulation::kInPlace));
    plan::finish(&plans.back());
  }
  return plans;
}

/// Returns plans as the engine makes them: sent activations keep their memory as long as needed to avoid a
/// deadlock.
inline std::vector<plan::Plan> stage_plans(const parallel::pipeline::Shape& shape) {
  for (size_t keeps = plan::Stage().sent_lifetime_actions;; keeps *= 2) {
    std::vector<plan::Plan> plans = stage_plans(shape, keeps);
    if (plan::find_deadlock(pointers_to(plans)).empty()) return plans;
  }
}

/// Returns costs in which a block takes its chunk's costs, and everything else, including messages, takes
/// nothing.
inline plan::CostTable costs_of(const plan::Plan& plan, const PartCosts& parts) {
  using plan::Op, plan::Part;
  plan::CostTable costs;
  for (const plan::Instruction& n : plan.instructions) {
    const bool block = n.op == Op::kForward || n.op == Op::kBackward;
    costs.seconds.push_back(static_cast<double>(n.op == Op::kBackwardInput    ? parts.input
                                                : n.op == Op::kBackwardWeight ? parts.weight
                                                : !block || n.block == 0      ? 0
                                                : n.op == Op::kForward        ? parts.forward
                                                                              : parts.of(Part::kBackward)));
  }
  costs.transfer_seconds.assign(plan.instructions.size(), 0);
  return costs;
}

inline std::vector<plan::Timeline> simulated(const std::vector<plan::Plan>& plans, const PartCosts& parts) {
  std::vector<std::vector<plan::CostTable>> costs;
  for (const plan::Plan& plan : plans) costs.push_back({costs_of(plan, parts)});
  std::vector<plan::Timeline> lines;
  for (std::vector<plan::Timeline>& stage : plan::simulate(pointers_to(plans), costs))
    lines.push_back(std::move(stage.front()));
  return lines;
}

}  // namespace hawser::testing
