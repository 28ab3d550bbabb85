#include "engine/report/block_costs.h"

#include <algorithm>

#include "engine/plan/state_table.h"
#include "engine/report/forecast.h"

namespace hawser::train {
namespace {

using plan::Instruction;
using plan::Op;
using plan::Plan;

bool is_update(Op op) { return op == Op::kGradNorm || op == Op::kOptimizerStep; }

void add_seconds(const Plan& plan, const plan::CostTable& costs, std::vector<BlockCosts>* blocks) {
  for (size_t i = 0; i < plan.instructions.size(); ++i) {
    const Instruction& n = plan.instructions[i];
    if (n.is_transfer() || n.block < 0 || (n.micro_batch != 0 && !is_update(n.op))) continue;
    BlockCosts& block = (*blocks)[static_cast<size_t>(n.block)];
    const double seconds = costs.seconds[i] + costs.all_exposed_seconds(n, costs.seconds[i]);
    const bool in_weight_pass = n.op == Op::kBackwardWeight || n.op == Op::kRoundGrad;
    (n.op == Op::kOptimizerStep ? block.update
     : n.op == Op::kGradNorm    ? block.norm
     : n.op == Op::kForward     ? block.forward
     : n.op == Op::kRecompute   ? block.recompute
     : in_weight_pass           ? block.weights
                                : block.backward) += seconds;
    if (n.op != Op::kRecompute) block.flops += n.flops;
  }
}

/// Adds the slots that the first micro-batch's forward leaves in the arena for the backward of each block.
void add_saved(const Plan& plan, std::vector<BlockCosts>* blocks) {
  std::vector<bool> is_left(plan.slots.size());
  for (const Instruction& n : plan.instructions) {
    if (n.micro_batch != 0) continue;
    const bool forward = n.op == Op::kForward || n.op == Op::kRecvF;
    const bool backward = plan::traits_of(n.op).backward || n.op == Op::kRecompute;
    for (const plan::Use& use : n.uses) {
      const auto id = static_cast<size_t>(use.slot);
      const plan::Slot& slot = plan.slots[id];
      if (forward && use.written) is_left[id] = !slot.persistent && slot.in_arena();
      if (!backward || use.written || !is_left[id]) continue;
      (*blocks)[static_cast<size_t>(n.block)].saved += static_cast<double>(slot.bytes);
      is_left[id] = false;
    }
  }
}

void add_state(const Plan& plan, std::vector<BlockCosts>* blocks) {
  for (const plan::Slot& slot : plan.slots) {
    if (!slot.persistent || !slot.in_arena() || slot.block < 0) continue;
    BlockCosts& block = (*blocks)[static_cast<size_t>(slot.block)];
    const auto bytes = static_cast<double>(slot.bytes);
    if (slot.category == plan::Category::kWeights) block.weight += bytes;
    if (slot.category == plan::Category::kGradients) block.gradient += bytes;
    if (slot.category == plan::Category::kOptimizer) block.optimizer += bytes;
  }
}

/// Returns the bytes that a stage needs beyond its state and its saved activations. The last stage saves the
/// activations of one micro-batch at a time, the others those of two.
double transient_bytes(const EnginePlans& plans, const std::vector<BlockCosts>& blocks) {
  const double in_flight = plans.stage.has(static_cast<int32_t>(blocks.size()) - 1) ? 1 : 2;
  auto bytes = static_cast<double>(plans.device_bytes());
  for (size_t b = 0; b < blocks.size(); ++b)
    if (plans.stage.has(static_cast<int32_t>(b)))
      bytes -= blocks[b].weight + blocks[b].gradient + blocks[b].optimizer + in_flight * blocks[b].saved;
  return bytes;
}

bool has_equal_layers(const std::vector<EnginePlans>& stages, const std::vector<BlockCosts>& blocks) {
  const auto head = static_cast<int32_t>(blocks.size()) - 1;
  std::vector<BlockCosts> inner;
  for (const EnginePlans& plans : stages)
    for (const plan::ModelChunk& chunk : plans.stage.chunks)
      for (int32_t b = std::max(chunk.begin, 1) + 1; b + 1 < std::min(chunk.end, head); ++b)
        inner.push_back(blocks[static_cast<size_t>(b)]);
  return !inner.empty() &&
         std::all_of(inner.begin(), inner.end(), [&](const BlockCosts& b) { return b == inner.front(); });
}

}  // namespace

MeasuredBlocks measure_blocks(const config::ResolvedConfig& config, const cluster::Cluster& cluster,
                              double imbalance) {
  cluster::Cluster no_launches = cluster;
  no_launches.device.launch_seconds = 0;
  const Forecast forecast(config, no_launches, imbalance);
  MeasuredBlocks measured;
  std::vector<BlockCosts>& blocks = measured.blocks;
  blocks.resize(static_cast<size_t>(config.model.layers) + 2);
  for (const cluster::StageProblem& stage : forecast.problems()) {
    add_seconds(*stage.plan, cluster::stage_costs(no_launches, stage), &blocks);
    add_saved(*stage.plan, &blocks);
    add_state(*stage.plan, &blocks);
  }
  for (const EnginePlans& plans : forecast.stages())
    measured.transient = std::max(measured.transient, transient_bytes(plans, blocks));
  measured.equal_layers = has_equal_layers(forecast.stages(), blocks);
  return measured;
}

}  // namespace hawser::train
