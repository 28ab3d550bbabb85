#include "engine/plan/plan_builder.h"

#include <fmt/format.h>

namespace hawser::plan {
namespace {

using enum Operand;

Lane lane_of(Op op, Neighbour with) {
  const bool next = with == Neighbour::kNext;
  switch (op) {
    case Op::kSendF:
      return next ? Lane::kXToNext : Lane::kXToPrevious;
    case Op::kRecvF:
      return next ? Lane::kXFromNext : Lane::kXFromPrevious;
    case Op::kSendB:
      return next ? Lane::kDxToNext : Lane::kDxToPrevious;
    default:
      return next ? Lane::kDxFromNext : Lane::kDxFromPrevious;
  }
}

}  // namespace

PlanBuilder::PlanBuilder(const char* name, const Sizes& sizes, const Stage& stage)
    : s_(sizes), stage_(stage) {
  plan_.name = name;
  add_state();
}

/// States of other stages' blocks, which are most, have no bytes and get no slot (Plan::add_slot), so no name
/// is made for them.
SlotId PlanBuilder::state(const char* name, Category category, int64_t bytes, Role role, int32_t block) {
  if (bytes == 0 && role != Role::kWeightShards) return -1;
  std::string full = block < 0 ? std::string(name) : fmt::format("{}.{}", name, block);
  return plan_.add_slot({std::move(full), category, bytes, true, role, block});
}

/// Every plan adds the same persistent slots in the same order, so that these slots have the same offsets in
/// all plans.
void PlanBuilder::add_state() {
  const auto blocks = static_cast<int32_t>(s_.state.size());
  const auto each = [&](auto&& add) {
    for (int32_t b = 0; b < blocks; ++b) add(b, s_.state[static_cast<size_t>(b)]);
  };
  each([&](int32_t b, const BlockState& st) {
    const Role role = st.unsharded > 0 ? Role::kWeightShards : Role::kWeights;
    weights_.push_back(state("weights", Category::kWeights, st.weights, role, b));
  });
  state("scales", Category::kWeights, s_.scales, Role::kOther, -1);
  each([&](int32_t b, const BlockState& st) {
    state("master", Category::kOptimizer, st.master, Role::kMaster, b);
  });
  each([&](int32_t b, const BlockState& st) {
    gradients_.push_back(state("gradients", Category::kGradients, st.gradients, Role::kGradients, b));
  });
  lookup_gradient_ =
      state("lookup_gradient", Category::kGradients, s_.lookup_gradient, Role::kLookupGradient, -1);
  each([&](int32_t b, const BlockState& st) {
    const Category category = st.gradients > 0 ? Category::kBuckets : Category::kGradients;
    state("gradient_shards", category, st.gradient_shards, Role::kGradientShards, b);
  });
  for (size_t i = 0; i < kStateCount; ++i)
    each([&](int32_t b, const BlockState& st) {
      state(kStates[i].name, Category::kOptimizer, st.states[i], kStates[i].role, b);
    });
  state("rope_table", Category::kTables, s_.rope_table, Role::kOther, -1);
  scalars_ = state("scalars", Category::kTables, s_.scalars, Role::kOther, -1);
  norm_ = state("norm", Category::kTables, s_.norm, Role::kOther, -1);
  state("fp8_maxima", Category::kTables, s_.fp8_maxima, Role::kOther, -1);
}

Instruction& PlanBuilder::add(Op op, int32_t mb, int32_t block, const std::vector<Named>& reads,
                              const std::vector<Named>& writes, const Cost& cost) {
  Instruction n;
  n.op = op, n.micro_batch = mb, n.block = block;
  for (const Named& r : reads) n.read(r.operand, r.slot);
  for (const Named& w : writes) n.write(w.operand, w.slot);
  n.flops = cost.flops;
  n.work = plan_.add_work(cost.work);
  n.exchanges = cost.exchanges;
  n.host = cost.host;
  n.sent_bytes = sent_bytes(cost.exchanges);
  return plan_.add(std::move(n), cost.workspace);
}

SlotId PlanBuilder::load(int32_t mb, int64_t bytes) {
  const SlotId batch = transient(fmt::format("batch.{}", mb), Category::kStaging, bytes);
  add(Op::kLoadMicroBatch, mb, -1, {}, {{kBatch, batch}});
  return batch;
}

void PlanBuilder::add_sum(int32_t mb, int32_t block, Stream* x) {
  if (x->is_sum() && x->x < 0)
    x->x = transient(fmt::format("x{}.{}", block, mb), Category::kActivations, s_.residual);
}

/// The output of a block's second branch overwrites that of the block below, which the block reads first.
PlanBuilder::Made PlanBuilder::forward(int32_t mb, int32_t block, const Stream& x, SlotId batch,
                                       bool leaves) {
  const auto y_slot = [&] {
    return transient(fmt::format("x{}.{}", block + 1, mb), Category::kActivations, s_.residual);
  };
  if (block == 0) {
    const SlotId y = y_slot();
    add(Op::kForward, mb, 0, {{kBatch, batch}, {kWeights, weights(0)}}, {{kY, y}}, s_.embedding_forward);
    return {{y}, {}};
  }
  Saved saved = add_saved(mb, block);
  add_remade("dropped", mb, block, &saved);
  Stream y;
  if (!leaves || !s_.saves_middle) y.x = y_slot();
  if (leaves) {
    y.middle = s_.saves_middle ? saved.saved : y.x;
    y.branch = x.is_sum()
                   ? x.branch
                   : transient(fmt::format("branch{}.{}", block, mb), Category::kActivations, s_.branch);
  }
  add(Op::kForward, mb, block,
      {{kX, x.is_sum() ? -1 : x.x},
       {kMiddle, x.middle},
       {kBranch, x.branch},
       {kBatch, batch},
       {kWeights, weights(block)}},
      {{kX, x.is_sum() ? x.x : -1},
       {kY, y.x},
       {kBranchOut, y.branch},
       {kSaved, saved.saved},
       {kSavedForWeightPass, saved.kept},
       {kRecomputed, saved.remade},
       {kRecomputedForWeightPass, saved.remade_kept}},
      s_.forward_cost(block, x.is_sum(), leaves));
  return {y, saved};
}

PlanBuilder::Saved PlanBuilder::add_saved(int32_t mb, int32_t block) {
  const Cost& cost = s_.block_forward[static_cast<size_t>(block) - 1];
  const int64_t kept = s_.in_halves(block) ? cost.kept : 0;
  Saved saved;
  saved.saved = transient(fmt::format("saved{}.{}", block, mb), Category::kActivations, cost.saved - kept);
  saved.kept = transient(fmt::format("saved_for_weights{}.{}", block, mb), Category::kActivations, kept);
  return saved;
}

void PlanBuilder::add_remade(const char* name, int32_t mb, int32_t block, Saved* saved) {
  const Cost& cost = s_.block_forward[static_cast<size_t>(block) - 1];
  const int64_t kept = s_.in_halves(block) ? cost.remade_kept : 0;
  saved->remade =
      transient(fmt::format("{}{}.{}", name, block, mb), Category::kActivations, cost.remade - kept);
  saved->remade_kept =
      transient(fmt::format("{}_for_weights{}.{}", name, block, mb), Category::kActivations, kept);
}

void PlanBuilder::send(Op op, Neighbour to, int32_t mb, SlotId slot, int64_t bytes) {
  Instruction n;
  n.op = op, n.micro_batch = mb;
  n.lane = lane_of(op, to);
  n.read(kSent, slot);
  n.sent_bytes = bytes;
  plan_.instructions.push_back(std::move(n));
}

void PlanBuilder::pass(Op op, Lane lane, SlotId slot, int64_t bytes) {
  Instruction n;
  n.op = op, n.lane = lane, n.block = 0;
  if (op == Op::kSendTableGrad || op == Op::kSendTable)
    n.read(kSent, slot);
  else
    n.write(kReceived, slot);
  n.sent_bytes = bytes;
  plan_.instructions.push_back(std::move(n));
}

void PlanBuilder::receive(Op op, Neighbour from, int32_t mb, SlotId slot) {
  Instruction n;
  n.op = op, n.micro_batch = mb;
  n.lane = lane_of(op, from);
  n.write(kReceived, slot);
  plan_.instructions.push_back(std::move(n));
}

}  // namespace hawser::plan
