#include "engine/parallel/offload_gradients.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/parallel/host_update.h"
#include "engine/parallel/offload_moves.h"

namespace hawser::parallel {
namespace {

using plan::Instruction;
using plan::Lane;
using plan::Op;
using plan::Operand;
using plan::Role;
using plan::SlotId;

class OffloadGradients {
 public:
  OffloadGradients(plan::Plan* plan, const ShardLayout& layout, bool many, bool each, int64_t prefetch)
      : plan_(*plan), layout_(layout), many_(many), each_(each), prefetch_(static_cast<size_t>(prefetch)) {}

  void run() {
    number_calls();
    before_.resize(plan_.instructions.size());
    for (size_t i = plan_.commit; i < plan_.instructions.size(); ++i)
      if (plan_.instructions[i].op == Op::kOptimizerStep) move_gradients_of(&plan_.instructions[i]);
    insert_around(
        &plan_,
        [&](size_t i, Instruction*) {
          for (Instruction& n : before_[i]) plan_.instructions.push_back(std::move(n));
        },
        [](size_t) {});
  }

 private:
  void number_calls() {
    for (size_t i = 0; i < plan_.instructions.size(); ++i) {
      number_.push_back(calls_.size());
      if (plan::traits_of(plan_.instructions[i].op).modules) calls_.push_back(i);
    }
  }

  void move_gradients_of(Instruction* step) {
    const int32_t block = step->block;
    const SlotId on_host = plan_.add_slot(gradients_on_host(layout_, block));
    const auto read = std::find_if(step->uses.begin(), step->uses.end(),
                                   [](const plan::Use& use) { return use.operand == Operand::kGradients; });
    const SlotId gradients = std::exchange(read->slot, on_host);
    Instruction& norm = take_norm(block, on_host);
    const auto end = static_cast<size_t>(&norm - plan_.instructions.data());
    if (each_)
      add_on_host(block, gradients, on_host, end);
    else if (many_)
      move({used(gradients, end), gradients}, block, on_host, end, 0);
    else
      move_visits(block, gradients, on_host, end);
  }

  /// The GRAD_NORM of the block, which now reads the gradients in host memory.
  Instruction& take_norm(int32_t block, SlotId on_host) {
    const auto norm =
        std::find_if(plan_.instructions.begin(), plan_.instructions.end(),
                     [&](const Instruction& n) { return n.op == Op::kGradNorm && n.block == block; });
    norm->lane = Lane::kHost;
    for (plan::Use& use : norm->uses)
      if (use.operand == Operand::kGradients) use.slot = on_host;
    if (norm->scratch >= 0) plan_.slots[static_cast<size_t>(norm->scratch)].space = plan::Space::kHost;
    return *norm;
  }

  std::vector<size_t> used(SlotId slot, size_t end) const {
    std::vector<size_t> uses;
    for (size_t i = 0; i < end; ++i)
      for (const plan::Use& use : plan_.instructions[i].uses)
        if (use.slot == slot && (uses.empty() || uses.back() != i)) uses.push_back(i);
    return uses;
  }

  /// Consecutive uses of gradients in the arena.
  struct Visit {
    std::vector<size_t> uses;
    SlotId inside;
  };

  /// The module call that comes `prefetch` after instruction i, but not one after `end`.
  size_t behind(size_t i, size_t end) const {
    const size_t number = number_[i] + prefetch_;
    return std::max(i + 1, std::min(end, number < calls_.size() ? calls_[number] : end));
  }

  /// Copies the gradients of a visit to the host after it, and those of the visits before to the arena before
  /// it, not earlier than instruction `from`. Returns where they have been sent.
  size_t move(const Visit& visit, int32_t block, SlotId on_host, size_t end, size_t from) {
    const size_t first = visit.uses.front(), last = visit.uses.back();
    if (from > 0) {
      const size_t ahead = number_[first] - std::min(number_[first], prefetch_);
      const size_t at = std::max(from, std::min(first, ahead < calls_.size() ? calls_[ahead] : first));
      before_[at].push_back(
          move_parts(plan_, layout_, Op::kFetch, Lane::kFetchState, block, on_host, visit.inside));
    }
    const size_t at = plan_.instructions[last].is_transfer() ? behind(last, end) : last + 1;
    before_[at].push_back(
        move_parts(plan_, layout_, Op::kOffload, Lane::kOffloadState, block, visit.inside, on_host));
    return at;
  }

  /// One rank: each visit has arena memory of its own.
  void move_visits(int32_t block, SlotId gradients, SlotId on_host, size_t end) {
    std::vector<Visit> visits;
    for (const size_t i : used(gradients, end)) {
      if (visits.empty() || number_[i] > number_[visits.back().uses.back()] + 1) visits.push_back({{}, -1});
      visits.back().uses.push_back(i);
    }
    size_t from = 0;
    for (size_t v = 0; v < visits.size(); ++v) {
      Visit& visit = visits[v];
      plan::Slot inside = plan_.slot(gradients);
      inside.name = fmt::format("gradients.{} (here {})", block, visit.uses.front());
      inside.persistent = false;
      visit.inside = plan_.add_slot(std::move(inside));
      for (const size_t i : visit.uses)
        for (plan::Use& use : plan_.instructions[i].uses)
          if (use.slot == gradients) use.slot = visit.inside;
      const size_t next = v + 1 < visits.size() ? visits[v + 1].uses.front() : end;
      from = move(visit, block, on_host, next, from);
    }
  }

  /// Ranks that reduce every micro-batch: its f32 sum comes down, and the host adds it to those before.
  void add_on_host(int32_t block, SlotId gradients, SlotId on_host, size_t end) {
    struct Sum {
      SlotId inside = -1;
      size_t last = 0;  // the instruction that completes it
    };
    std::map<int32_t, Sum> sums;  // keyed by micro-batch
    for (const size_t i : used(gradients, end)) {
      Instruction& n = plan_.instructions[i];
      HWS_CHECK(n.op == Op::kReduceGrad || n.op == Op::kReduceReplicas);
      Sum& sum = sums[n.micro_batch];
      if (sum.inside < 0)
        sum.inside = plan_.add_slot(sums_slot("sums", block, n.micro_batch, plan::Space::kArena));
      for (plan::Use& use : n.uses)
        if (use.slot == gradients) use.slot = sum.inside;
      n.accumulate = false;
      sum.last = i;
    }
    for (const auto& [micro_batch, sum] : sums) {
      const SlotId addend = plan_.add_slot(sums_slot("sums_down", block, micro_batch, plan::Space::kHost));
      const size_t down = behind(sum.last, end);
      before_[down].push_back(move_instruction(Op::kOffload, Lane::kOffloadState, block, sum.inside, addend));
      Instruction add;
      add.op = Op::kAddGrad, add.lane = Lane::kHost, add.block = block, add.micro_batch = micro_batch;
      add.accumulate = micro_batch > 0;
      add.read(Operand::kAddend, addend);
      add.write(Operand::kGradients, on_host);
      before_[down < end ? behind(down, end) : end].push_back(std::move(add));
    }
  }

  plan::Slot sums_slot(const char* name, int32_t block, int32_t micro_batch, plan::Space space) const {
    plan::Slot slot{fmt::format("{}.{}.{}", name, block, micro_batch),
                    plan::Category::kBuckets,
                    layout_.block_state(block).shard_sums,
                    false,
                    Role::kShardSums,
                    block};
    slot.space = space;
    return slot;
  }

  plan::Plan& plan_;
  const ShardLayout& layout_;
  const bool many_, each_;
  const size_t prefetch_;
  std::vector<size_t> number_;                    // indexed by instruction: module calls before it
  std::vector<size_t> calls_;                     // instructions that are module calls
  std::vector<std::vector<Instruction>> before_;  // indexed by instruction
};

}  // namespace

void offload_gradients(plan::Plan* plan, const ShardLayout& layout, const DataParallelStrategy& strategy,
                       int64_t micro_batches, int64_t prefetch) {
  for (plan::Slot& slot : plan->slots)
    if (slot.role == Role::kGradients || slot.role == Role::kGradientShards) slot.persistent = false;
  const bool each = strategy.reduces_each(micro_batches);
  if (strategy.many() && micro_batches > 1 && !(each && layout.state_sharded()))
    fail(
        Code::kConfigInvalid,
        "/offload/gradients \"host\": {} data-parallel ranks add up the gradients of {} micro-batches on the "
        "device before they reduce them; to add them on the host, set /zero/reduce to \"per_micro_batch\" "
        "and /zero/stage to 1, 2 or 3",
        strategy.shards * strategy.replicas, micro_batches);
  if (!plan->instructions.empty()) OffloadGradients(plan, layout, strategy.many(), each, prefetch).run();
}

}  // namespace hawser::parallel
