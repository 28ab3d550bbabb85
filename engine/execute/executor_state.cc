// The executor's pointers into the persistent slots, computed once, and the current addresses of each block's
// weights and gradients for the modules.
#include <algorithm>
#include <utility>

#include "engine/execute/executor.h"

namespace hawser::train {

Executor::Executor(Setup setup, const plan::Plan& plan)
    : s_(std::move(setup)),
      pointers_(s_.model.modules->table().groups().size()),
      transfers_(s_.communication.runtime, s_.memory.outside, s_.memory.layout, s_.memory.arena->data()),
      graphs_(&s_.memory.link->device(), s_.communication.devices) {
  const auto named = [&](const char* name) { return at(plan, plan::find_slot(plan, name)); };
  if (char* const memory = named("lookup_gradient"))
    lookup_gradient_ =
        nn::LookupGradient(s_.memory.mirror.lookup_gradient(memory), memory, s_.model.lookup_gradient,
                           s_.communication.blocks->exchange().rank() * s_.model.lookup_gradient.vocab);
  rope_table_ = reinterpret_cast<float*>(named("rope_table"));
  slots_.emplace(s_.memory.arena.get(), s_.memory.link->in_place(), plan);
  HostExchange::Setup host{s_.memory.link, s_.memory.mirror, s_.communication.trail,
                           s_.communication.groups->dp.get(), lookups()};
  host.kinds = s_.communication.kinds;
  host.own = s_.communication.blocks->columns().own();
  host.cp =
      (s_.communication.groups->cp_hosts ? s_.communication.groups->cp_hosts : s_.communication.groups->cp)
          .get();
  host.tp = s_.communication.groups->tp.get();
  host.scores = s_.model.modules->config().has_score();
  host.counts_rows = s_.communication.counts_rows, host.counts_tokens = s_.communication.counts_tokens;
  host.padding_token = static_cast<int32_t>(s_.model.modules->config().padding_token);
  host.tally_words = nn::all_tally_words(s_.model.modules->config());
  host.ahead = s_.model.modules->config().ahead, host.ahead_weight = s_.model.ahead_weight;
  host.fp8_operands = s_.model.fp8_operands, host.records_maxima = s_.optimizer != nullptr;
  host.fp8_maxima = reinterpret_cast<float*>(named("fp8_maxima"));
  host.head_scores = s_.model.head_scores;
  host.scalars = reinterpret_cast<StepScalars*>(named("scalars"));
  host.sums = reinterpret_cast<StepSums*>(named("norm"));
  host.objective = s_.model.objective, host.teacher_top = s_.model.teacher.top;
  host.objective.cp = host.cp, host.objective.dp = host.dp;
  host.objective.counts = host.counts_rows && host.own.rank == 0;
  host_.emplace(host);
  bind_state(plan);
  for (size_t id = 0; id < plan.slots.size(); ++id)
    if (plan.slots[id].persistent) point_groups(plan, static_cast<plan::SlotId>(id));
}

void Executor::bind_state(const plan::Plan& plan) {
  using plan::Role;
  const std::vector<nn::ParameterGroup>& groups = s_.model.modules->table().groups();
  gaps_.resize(static_cast<size_t>(s_.memory.layout->blocks()));
  for (size_t i = 0; i < groups.size(); ++i) {
    const parallel::GroupLayout& layout = s_.memory.layout->group(static_cast<int32_t>(i));
    if (!layout.here) {
      state_.emplace_back();
      continue;
    }
    if (layout.borrowed) {
      state_.push_back(s_.memory.borrowed[i].state);
      pointers_[i].weights = s_.memory.borrowed[i].weights;
      pointers_[i].scales = s_.memory.borrowed[i].state.scales;
      continue;
    }
    const auto block = static_cast<int32_t>(groups[i].block);
    const auto slot = [&](Role role) { return plan::find_state(plan, role, block); };
    const bool sharded = s_.memory.layout->weights_sharded();
    GroupState state;
    state.range = layout.state;
    state.weights = state_in(plan, slot(sharded ? Role::kWeightShards : Role::kWeights),
                             own_weights(static_cast<int32_t>(i)), layout.type);
    if (layout.type == DType::kNf4) {
      state.scales = reinterpret_cast<float*>(at(plan, plan::find_slot(plan, "scales")) + layout.scales);
      pointers_[i].scales = state.scales;
    }
    if (layout.has_master) {
      state.copy = state.weights;
      state.weights = state_in(plan, slot(Role::kMaster), layout.master, layout.state_type);
    }
    for (size_t s = 0; s < plan::kStateCount; ++s)
      if (const parallel::GroupLayout::KeptState& kept = layout.states[s]; kept.kept)
        state.states[s] = state_in(plan, slot(plan::kStates[s].role), kept.at, kept.type);
    state_.push_back(state);
    if (layout.has_gradient()) bind_gaps(static_cast<int32_t>(i));
  }
}

StateArray Executor::state_in(const plan::Plan& plan, plan::SlotId id, int64_t offset, DType type) const {
  if (id < 0) return {nullptr, type};
  const plan::Slot& slot = plan.slot(id);
  if (slot.in_arena()) return {at(plan, id) + offset, type};
  return {nullptr, type, s_.memory.outside->memory(slot.space), slot.offset + offset};
}

/// The byte of this rank's part of a group in its block's slot of weights, or of shards at stage 3.
int64_t Executor::own_weights(int32_t g) const {
  const parallel::GroupLayout& group = s_.memory.layout->group(g);
  if (s_.memory.layout->weights_sharded()) return group.weight_shard;
  return group.weights + dtype_bytes(group.type, group.state.begin);
}

void Executor::bind_gaps(int32_t group) {
  const parallel::GroupLayout& layout = s_.memory.layout->group(group);
  const auto block = s_.model.modules->table().groups()[static_cast<size_t>(group)].block;
  std::vector<Gap>& gaps = gaps_[static_cast<size_t>(block)];
  const bool window = s_.memory.layout->has_window(static_cast<int32_t>(block));
  const int64_t written = window ? layout.gradient_window : layout.gradients;
  const DType type = window ? DType::kF32 : layout.state_type;
  int64_t end = 0;
  const auto gap_until = [&](int64_t begin) {
    if (begin > end) gaps.push_back({written + dtype_bytes(type, end), dtype_bytes(type, begin - end)});
  };
  for (const nn::Parameter& p : s_.model.modules->table().all()) {
    if (p.group != group) continue;
    gap_until(p.offset);
    end = p.offset + s_.memory.layout->share_of(p).elements();
  }
  gap_until(layout.elements);
}

/// From now on, modules find the groups of a block in this slot of whole weights or of the gradients that a
/// backward writes.
void Executor::point_groups(const plan::Plan& plan, plan::SlotId id) {
  using plan::Role;
  const plan::Slot& slot = plan.slot(id);
  const bool window = slot.role == Role::kGradientWindow;
  const bool whole = slot.role == Role::kGradients && !s_.memory.layout->has_window(slot.block);
  if (!slot.in_arena() || (slot.role != Role::kWeights && !whole && !window)) return;
  for (const int32_t g : s_.memory.layout->groups_of(slot.block)) {
    const parallel::GroupLayout& group = s_.memory.layout->group(g);
    nn::GroupPointers& pointers = pointers_[static_cast<size_t>(g)];
    if (slot.role == Role::kWeights && (!group.borrowed || s_.memory.layout->weights_sharded()))
      pointers.weights = at(plan, id) + group.weights;
    else if (group.has_gradient())
      pointers.gradients = at(plan, id) + (window ? group.gradient_window : group.gradients),
      pointers.gradient_type = window ? DType::kF32 : group.state_type;
  }
}

/// The byte of the reduced gradient from element state(g).range.begin on, in a slot of whole gradients, of
/// shards, or of gradients in host memory.
int64_t Executor::reduced(const plan::Plan& plan, plan::SlotId slot, int32_t g) const {
  const parallel::GroupLayout& group = s_.memory.layout->group(g);
  switch (plan.slot(slot).role) {
    case plan::Role::kGradients:
      return group.gradients + dtype_bytes(group.state_type, state(g).range.begin);
    case plan::Role::kHostGradients:
      return group.host_gradients;
    default:
      return group.gradient_shard;
  }
}

/// They are where OPTIMIZER_STEP reads them.
StateArray Executor::gradients(const plan::Plan& plan, int32_t g) const {
  const auto block = static_cast<int32_t>(s_.model.modules->table().groups()[static_cast<size_t>(g)].block);
  const auto step = std::find_if(
      plan.instructions.begin(), plan.instructions.end(),
      [&](const plan::Instruction& n) { return n.op == plan::Op::kOptimizerStep && n.block == block; });
  const plan::SlotId slot = (*step)[plan::Operand::kGradients];
  return state_in(plan, slot, reduced(plan, slot, g), s_.memory.layout->group(g).state_type);
}

}  // namespace hawser::train
