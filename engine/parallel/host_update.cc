#include "engine/parallel/host_update.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "engine/parallel/offload_moves.h"

namespace hawser::parallel {
namespace {

using plan::Instruction;
using plan::Lane;
using plan::Op;
using plan::Operand;
using plan::Role;
using plan::SlotId;

plan::Slot in_host_memory(const char* name, plan::Category category, int64_t bytes, Role role,
                          int32_t block) {
  plan::Slot slot{fmt::format("{}.{} (host)", name, block), category, bytes, false, role, block};
  slot.space = plan::Space::kHost;
  return slot;
}

class UpdateOnHost {
 public:
  UpdateOnHost(plan::Plan* plan, const ShardLayout& layout, int64_t prefetch, const OnHost& also)
      : plan_(*plan), layout_(layout), prefetch_(static_cast<size_t>(prefetch)), also_(also) {}

  void run() {
    for (size_t i = 0; i < plan_.instructions.size(); ++i)
      if (plan_.instructions[i].op == Op::kOptimizerStep) updates_.push_back(i);
    before_.resize(plan_.instructions.size()), after_.resize(plan_.instructions.size());
    for (size_t u = 0; u < updates_.size(); ++u) {
      if (!also_.gradients) bring_gradients_down(u);
      move_update(u);
    }
    const auto before = [&](size_t i, Instruction*) { emit(&before_[i]); };
    const auto after = [&](size_t i) { emit(&after_[i]); };
    insert_around(&plan_, before, after);
  }

 private:
  Instruction& update(size_t u) { return plan_.instructions[updates_[u]]; }

  void bring_gradients_down(size_t u) {
    Instruction& step = update(u);
    const int32_t block = step.block;
    const SlotId on_host = plan_.add_slot(gradients_on_host(layout_, block));
    const auto read = std::find_if(step.uses.begin(), step.uses.end(),
                                   [](const plan::Use& use) { return use.operand == Operand::kGradients; });
    const SlotId gradients = std::exchange(read->slot, on_host);
    Instruction down =
        move_parts(plan_, layout_, Op::kOffload, Lane::kOffloadState, block, gradients, on_host);
    const size_t last = last_write(gradients);
    if (plan_.instructions[last].is_transfer())
      before_[behind(last, block)].push_back(std::move(down));
    else
      after_[last].push_back(std::move(down));
  }

  /// The last instruction before the commit that writes the slot.
  size_t last_write(SlotId slot) const {
    for (size_t i = plan_.commit; i-- > 0;)
      for (const plan::Use& use : plan_.instructions[i].uses)
        if (use.slot == slot && use.written) return i;
    return 0;
  }

  /// The module call that comes `prefetch` after instruction i, or the norm of the block, which waits anyway.
  size_t behind(size_t i, int32_t block) const {
    size_t calls = 0;
    for (++i; i + 1 < plan_.commit; ++i) {
      const Instruction& n = plan_.instructions[i];
      if (n.op == Op::kGradNorm && n.block == block) break;
      if (plan::traits_of(n.op).modules && calls++ == prefetch_) break;
    }
    return i;
  }

  void move_update(size_t u) {
    Instruction& step = update(u);
    const int32_t block = step.block;
    step.lane = Lane::kHost;
    std::vector<Instruction>& then = after_[updates_[u]];
    const SlotId weights = step[Operand::kWeights];
    if (layout_.balances(block)) then.push_back(balance(block, weights));
    if (also_.weights) return;
    std::erase_if(step.uses, [](const plan::Use& use) { return use.operand == Operand::kWeights; });
    const SlotId narrow = find_state(plan_, Role::kHostWeights, block);
    step.write(Operand::kWeights, narrow);
    for (const SlotId from : {narrow, step[Operand::kMaster]}) {
      if (from < 0) continue;
      Instruction up = move_parts(plan_, layout_, Op::kFetch, Lane::kFetchState, block, from, weights);
      if (up.moved_parts > 0) then.push_back(std::move(up));
    }
  }

  /// Routers' biases have neither masters nor gradients, so they stay on the device.
  Instruction balance(int32_t block, SlotId weights) const {
    Instruction n;
    n.op = Op::kBalance, n.block = block;
    n.read(Operand::kNorm, find_slot(plan_, "norm"));
    n.write(Operand::kWeights, weights);
    return n;
  }

  void emit(std::vector<Instruction>* these) {
    for (Instruction& n : *these) plan_.instructions.push_back(std::move(n));
  }

  plan::Plan& plan_;
  const ShardLayout& layout_;
  const size_t prefetch_;
  const OnHost also_;
  std::vector<size_t> updates_;                           // instructions that are OPTIMIZER_STEPs
  std::vector<std::vector<Instruction>> before_, after_;  // indexed by instruction
};

}  // namespace

bool takes_part(const GroupLayout& g, Role outside) {
  if (!g.trainable) return false;
  return outside == Role::kHostGradients || (g.has_master && g.narrows() == (outside == Role::kHostWeights));
}

MovedPart moved_part(const ShardLayout& layout, const GroupLayout& g, Role inside, Role outside) {
  const int64_t elements = layout.state_elements(g), first = layout.state_sharded() ? g.index * g.shard : 0;
  const auto bytes = [](DType type, int64_t n) { return dtype_bytes(type, n); };
  if (outside == Role::kHostGradients)
    return {inside == Role::kGradients ? g.gradients + bytes(g.state_type, first) : g.gradient_shard,
            g.host_gradients, bytes(g.state_type, elements)};
  return {inside == Role::kWeightShards ? g.weight_shard : g.weights + bytes(g.type, first),
          outside == Role::kHostWeights ? g.host_weights : g.master, bytes(g.type, elements)};
}

plan::Slot gradients_on_host(const ShardLayout& layout, int32_t block) {
  return in_host_memory("gradients", plan::Category::kGradients, layout.block_state(block).host_gradients,
                        Role::kHostGradients, block);
}

Instruction move_parts(const plan::Plan& plan, const ShardLayout& layout, Op op, Lane lane, int32_t block,
                       SlotId sent, SlotId received) {
  Instruction n = move_instruction(op, lane, block, sent, received);
  const bool out = op == Op::kOffload;
  const Role outside = plan.slot(out ? received : sent).role, inside = plan.slot(out ? sent : received).role;
  for (const int32_t g : layout.groups_of(block)) {
    if (!takes_part(layout.group(g), outside)) continue;
    n.moved_bytes += moved_part(layout, layout.group(g), inside, outside).bytes;
    ++n.moved_parts;
  }
  return n;
}

void update_on_host(plan::Plan* plan, const ShardLayout& layout, int64_t prefetch, const OnHost& also) {
  for (plan::Slot& slot : plan->slots)
    if (is_optimizer_state(slot)) place_outside(&slot, plan::Space::kHost);
  // They keep their memory, because the update does not write the zeros between parameters.
  for (int32_t block = 0; block < layout.blocks(); ++block) {
    plan::Slot narrow = in_host_memory("weights", plan::Category::kOptimizer,
                                       layout.block_state(block).host_weights, Role::kHostWeights, block);
    narrow.persistent = true;
    plan->add_slot(std::move(narrow));
  }
  UpdateOnHost(plan, layout, prefetch, also).run();
}

}  // namespace hawser::parallel
