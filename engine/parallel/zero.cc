#include "engine/parallel/zero.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "engine/parallel/data_parallel.h"
#include "engine/parallel/traffic.h"

namespace hawser::parallel {
namespace {

using plan::Instruction;
using plan::Op;
using plan::Operand;
using plan::Role;
using plan::SlotId;

Instruction unshard(int32_t block, bool experts) {
  Instruction n;
  n.experts = experts;
  n.op = Op::kUnshard;
  n.lane = plan::Lane::kDataParallel;
  n.block = block;
  return n;
}

/// Implements stage 3. A period is a sequence of uses of one block's weights that share one gathered copy.
class GatherForUse {
 public:
  GatherForUse(plan::Plan* plan, const ShardLayout& layout, const DataParallelStrategy& strategy)
      : plan_(*plan), layout_(layout), s_(strategy) {}

  void run() {
    find_uses();
    for (int32_t block = 0; block < layout_.blocks(); ++block) find_periods(block);
    place_gathers();
    const auto before = [&](size_t i, Instruction*) {
      for (const size_t p : gathers_[i]) gather(periods_[p]);
    };
    const auto after = [&](size_t i) {
      for (const size_t p : reshards_[i]) reshard(periods_[p]);
    };
    insert_around(&plan_, before, after);
  }

 private:
  struct Use {
    size_t at;      // instruction
    size_t number;  // position among the instructions that use weights
  };
  struct Period {
    int32_t block;
    std::vector<Use> uses;
    SlotId weights = -1;
    SlotId secondary = -1;         // where a shard is stored when the period ends
    SlotId gather_from = -1;       // the secondary shard to gather from; -1: from all ranks' shards
    bool in_flight_after = false;  // a micro-batch that used the block will use it again
  };

  void find_uses() {
    uses_.resize(static_cast<size_t>(layout_.blocks()));
    for (size_t i = 0; i < plan_.instructions.size(); ++i) {
      const Instruction& n = plan_.instructions[i];
      if (!plan::traits_of(n.op).modules) continue;
      by_number_.push_back(i);
      for (const plan::Use& use : n.uses)
        if (use.operand == Operand::kWeights)
          uses_[static_cast<size_t>(plan_.slot(use.slot).block)].push_back({i, by_number_.size() - 1});
    }
  }

  /// Divides a block's uses into periods. Consecutive uses share a gathered copy. Under kKeep a copy stays
  /// while any micro-batch is in flight, that is, between a use of the block and that micro-batch's last use.
  void find_periods(int32_t block) {
    const size_t first = periods_.size();
    const std::vector<Use>& uses = uses_[static_cast<size_t>(block)];
    std::map<int32_t, size_t> last;  // use of each micro-batch
    for (size_t u = 0; u < uses.size(); ++u) last[micro_batch(uses[u])] = u;
    std::set<int32_t> in_flight;
    for (size_t u = 0; u < uses.size(); ++u) {
      const bool keeps = s_.reshard == ReshardAfterForward::kKeep && !in_flight.empty();
      if (u == 0 || !(keeps || uses[u].number == uses[u - 1].number + 1)) periods_.push_back({block, {}});
      periods_.back().uses.push_back(uses[u]);
      in_flight.insert(micro_batch(uses[u]));
      if (last[micro_batch(uses[u])] == u) in_flight.erase(micro_batch(uses[u]));
      periods_.back().in_flight_after = !in_flight.empty();
    }
    for (size_t p = first; p < periods_.size(); ++p) {
      Period& period = periods_[p];
      const Use& use = period.uses.front();
      period.weights =
          plan_.add_slot({fmt::format("unsharded.{}.{}", block, use.number), plan::Category::kBuckets,
                          layout_.block_state(block).unsharded, false, Role::kWeights, block});
      for (const Use& each : period.uses) rewire(&plan_.instructions[each.at], block, period.weights);
    }
    if (s_.reshard == ReshardAfterForward::kGroup) keep_parts(first);
  }
  int32_t micro_batch(const Use& use) const { return plan_.instructions[use.at].micro_batch; }

  void rewire(Instruction* n, int32_t block, SlotId weights) {
    for (plan::Use& use : n->uses)
      if (use.operand == Operand::kWeights && plan_.slot(use.slot).block == block) use.slot = weights;
  }

  /// Stores a shard of a copy for the next copy, if a micro-batch is in flight between them.
  void keep_parts(size_t first) {
    for (size_t p = first; p + 1 < periods_.size(); ++p) {
      Period &from = periods_[p], &next = periods_[p + 1];
      if (!from.in_flight_after) continue;
      next.gather_from = from.secondary =
          plan_.add_slot({fmt::format("secondary.{}.{}", from.block, micro_batch(from.uses.back())),
                          plan::Category::kBuckets, layout_.block_state(from.block).secondary, false,
                          Role::kSecondary, from.block});
    }
  }

  /// Gathers a copy `prefetch` uses before it is needed, but not before its source exists.
  void place_gathers() {
    gathers_.resize(plan_.instructions.size());
    reshards_.resize(plan_.instructions.size());
    std::vector<size_t> order(periods_.size());
    for (size_t p = 0; p < order.size(); ++p) order[p] = p;
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return std::pair(periods_[a].uses.front().number, periods_[a].block) <
             std::pair(periods_[b].uses.front().number, periods_[b].block);
    });
    const auto ahead = static_cast<size_t>(s_.prefetch);
    for (const size_t p : order) {
      const size_t number = periods_[p].uses.front().number;
      size_t at = by_number_[number > ahead ? number - ahead : 0];
      if (periods_[p].gather_from >= 0) at = std::max(at, periods_[p - 1].uses.back().at + 1);
      gathers_[at].push_back(p);
      if (periods_[p].secondary >= 0) reshards_[periods_[p].uses.back().at].push_back(p);
    }
  }

  void gather(const Period& period) {
    for (const bool experts : layout_.transfer_kinds({period.block})) gather(period, experts);
  }
  void gather(const Period& period, bool experts) {
    Instruction n = unshard(period.block, experts);
    const bool from_group = period.gather_from >= 0;
    n.read(Operand::kSent,
           from_group ? period.gather_from : find_state(plan_, Role::kWeightShards, period.block));
    n.write(Operand::kReceived, period.weights);
    n.sent_bytes =
        unshard_bytes(layout_, {period.block},
                      from_group ? layout_.secondary_parts() : layout_.parts(experts), false, experts);
    plan_.instructions.push_back(std::move(n));
  }

  void reshard(const Period& period) {
    Instruction n;
    n.op = Op::kReshard;
    n.block = period.block;
    n.read(Operand::kWeights, period.weights);
    n.write(Operand::kSecondary, period.secondary);
    plan_.instructions.push_back(std::move(n));
  }

  plan::Plan& plan_;
  const ShardLayout& layout_;
  const DataParallelStrategy& s_;
  std::vector<std::vector<Use>> uses_;  // indexed by block
  std::vector<size_t> by_number_;       // instruction index of each use
  std::vector<Period> periods_;
  std::vector<std::vector<size_t>> gathers_, reshards_;  // indexed by instruction: before and after it
};

}  // namespace

void gather_updated_weights(plan::Plan* plan, const ShardLayout& layout,
                            const DataParallelStrategy& strategy) {
  if (!layout.state_sharded() || layout.weights_sharded()) return;
  std::vector<int64_t> bytes;
  for (int32_t b = 0; b < layout.blocks(); ++b)
    bytes.push_back(layout.block_state(b).gradient_bucket > 0 ? layout.block_state(b).weights : 0);
  const auto buckets = gradient_buckets(bytes, strategy.bucket_bytes, strategy.first_bucket_bytes);
  int32_t updated = -1;      // the block that this instruction updates
  bool table_comes = false;  // this instruction receives the replica
  const auto before = [&](size_t, Instruction* n) {
    updated = n->op == Op::kOptimizerStep ? n->block : -1;
    table_comes = n->op == Op::kRecvTable;
  };
  const auto after = [&](size_t) {
    if (table_comes) {
      Instruction gather = unshard(-1, false);
      gather.write(Operand::kReceived, find_state(*plan, Role::kWeights, 0));
      gather.sent_bytes = unshard_bytes(layout, {0}, layout.parts(), true, false);
      plan->instructions.push_back(std::move(gather));
    }
    for (size_t k = 0; k < buckets.size(); ++k) {
      // Blocks are in descending order, so the first block is updated last.
      if (buckets[k].front() != updated) continue;
      for (const bool experts : layout.transfer_kinds(buckets[k])) {
        if (layout.parts(experts) == 1) continue;
        Instruction gather = unshard(-1, experts);
        gather.bucket = static_cast<int32_t>(k);
        for (const int32_t b : buckets[k])
          if (!experts || layout.has_experts(b))
            gather.write(Operand::kReceived, find_state(*plan, Role::kWeights, b));
        gather.sent_bytes = unshard_bytes(layout, buckets[k], layout.parts(experts), true, experts);
        plan->instructions.push_back(std::move(gather));
      }
    }
  };
  insert_around(plan, before, after);
}

void gather_all_weights(plan::Plan* plan, const ShardLayout& layout) {
  if (!layout.state_sharded() || layout.weights_sharded()) return;
  for (int32_t block = 0; block < layout.blocks(); ++block)
    for (const bool experts : layout.transfer_kinds({block})) {
      if (layout.parts(experts) == 1) continue;
      Instruction gather = unshard(block, experts);
      gather.write(Operand::kReceived, find_state(*plan, Role::kWeights, block));
      gather.sent_bytes = unshard_bytes(layout, {block}, layout.parts(experts), false, experts);
      plan->instructions.push_back(std::move(gather));
    }
}

void gather_weights_for_use(plan::Plan* plan, const ShardLayout& layout,
                            const DataParallelStrategy& strategy) {
  if (layout.weights_sharded()) GatherForUse(plan, layout, strategy).run();
}

}  // namespace hawser::parallel
