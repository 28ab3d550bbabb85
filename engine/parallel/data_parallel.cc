#include "engine/parallel/data_parallel.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "engine/parallel/traffic.h"

namespace hawser::parallel {
namespace {

using plan::Instruction;
using plan::Op;
using plan::Operand;
using plan::Role;
using plan::SlotId;

/// Returns the blocks whose gradients an instruction completes (by rounding them, if the backward writes them
/// to a window). A tied head also produces gradients of the embedding.
std::vector<int32_t> produces_gradients_of(const Instruction& n, bool tied, const ShardLayout& layout) {
  const bool rounds = n.op == Op::kRoundGrad || n.op == Op::kRoundHeadGrad;
  const bool makes = n.op == Op::kLoss || n.op == Op::kBackward || n.op == Op::kBackwardInput ||
                     n.op == Op::kBackwardWeight || n.op == Op::kJoinHeadGrad;
  if (!(layout.has_window(n.block) ? rounds : makes)) return {};
  return n.op == Op::kLoss && tied ? std::vector{n.block, 0} : std::vector{n.block};
}

class Pass {
 public:
  Pass(plan::Plan* plan, const ShardLayout& layout, const DataParallelStrategy& strategy,
       int64_t most_micro_batches)
      : plan_(*plan),
        layout_(layout),
        s_(strategy),
        each_(strategy.reduces_each(most_micro_batches)),
        last_(static_cast<int32_t>(plan->micro_batches) - 1) {
    std::vector<int64_t> bytes;
    for (int32_t b = 0; b < layout.blocks(); ++b) bytes.push_back(layout.block_state(b).gradient_bucket);
    buckets_ = gradient_buckets(bytes, s_.bucket_bytes, s_.first_bucket_bytes);
  }

  void run() {
    if (layout_.options().gradient_buckets) give_buckets_slots();
    find_writes();
    if (each_ && !layout_.options().gradient_buckets) split_buckets();
    find_ready();
    const auto before = [&](size_t, Instruction* n) {
      const bool reads = n->op == Op::kGradNorm || n->op == Op::kMomentum || n->op == Op::kOptimizerStep;
      if (n->block >= 0 && reads) read_reduced(n);
    };
    const auto after = [&](size_t i) {
      for (const auto& [micro_batch, bucket] : ready_[i]) reduce(micro_batch, bucket);
    };
    insert_around(&plan_, before, after);
  }

 private:
  /// Returns the part of a micro-batch. Micro-batches that are reduced separately are separate parts;
  /// otherwise all are one.
  int32_t part_of(int32_t micro_batch) const { return each_ ? micro_batch : last_; }

  /// Gives full gradients a slot for as long as they are needed.
  void give_buckets_slots() {
    const bool tied = find_state(plan_, Role::kLookupGradient, -1) >= 0;
    for (Instruction& n : plan_.instructions)
      for (const int32_t block : produces_gradients_of(n, tied, layout_)) give_slot(&n, block);
  }
  void give_slot(Instruction* n, int32_t block) {
    const int64_t bytes = layout_.block_state(block).gradient_bucket;
    if (bytes == 0) return;
    SlotId& slot = whole_.try_emplace({part_of(n->micro_batch), block}, -1).first->second;
    if (slot < 0)
      slot = plan_.add_slot({fmt::format("gradients.{}.{}", block, n->micro_batch), plan::Category::kBuckets,
                             bytes, false, Role::kGradients, block});
    n->write(Operand::kGradients, slot);
  }

  SlotId whole(int32_t part, int32_t block) const {
    const auto found = whole_.find({part, block});
    return found != whole_.end() ? found->second : find_state(plan_, Role::kGradients, block);
  }
  /// Returns the slot of this rank's shard of sums: a slot of its own, or the slot of the full gradient.
  SlotId reduced(int32_t part, int32_t block) const {
    const SlotId own = find_state(plan_, Role::kGradientShards, block);
    return own >= 0 ? own : whole(part, block);
  }

  /// Finds the instructions that write the gradients of each part and block.
  void find_writes() {
    for (size_t i = 0; i < plan_.instructions.size(); ++i) {
      const Instruction& n = plan_.instructions[i];
      for (const plan::Use& use : n.uses) {
        const plan::Slot& slot = plan_.slot(use.slot);
        const int32_t part = n.micro_batch < 0 ? last_ : part_of(n.micro_batch);
        if (use.operand == Operand::kGradients && use.written && whole(part, slot.block) == use.slot)
          writes_.try_emplace({part, slot.block}, Writes{i, i}).first->second.last = i;
      }
    }
  }

  /// Splits buckets that no part could reduce in time. All micro-batches write the same full gradients, so a
  /// bucket must be sent before the next micro-batch writes any of its blocks. If a rank of a pipeline has
  /// several chunks, the next micro-batch reaches the upper chunk before this micro-batch has left the lower
  /// chunk. A bucket that spans both chunks is therefore split.
  void split_buckets() {
    std::vector<std::vector<int32_t>> split;
    for (const std::vector<int32_t>& bucket : buckets_) {
      split.emplace_back();
      for (const int32_t block : bucket) {
        const std::vector<int32_t>& open = split.back();
        if (std::any_of(open.begin(), open.end(),
                        [&](int32_t other) { return !final_together(block, other); }))
          split.emplace_back();
        split.back().push_back(block);
      }
    }
    buckets_ = std::move(split);
  }

  /// True if each part finishes both blocks before the next part writes either block.
  bool final_together(int32_t one, int32_t other) const {
    for (int32_t part = 0; part < last_; ++part)
      for (const auto& [first, second] : {std::pair{one, other}, {other, one}})
        if (writes_.at({part, first}).last > writes_.at({part + 1, second}).first) return false;
    return true;
  }

  /// A bucket is ready after the last instruction that writes a gradient of its blocks.
  void find_ready() {
    ready_.resize(plan_.instructions.size());
    for (int32_t part = each_ ? 0 : last_; part <= last_; ++part) {
      for (size_t k = 0; k < buckets_.size(); ++k) {
        size_t at = 0;
        for (const int32_t block : buckets_[k]) at = std::max(at, writes_.at({part, block}).last);
        ready_[at].emplace_back(part, static_cast<int32_t>(k));
      }
    }
  }

  Instruction transfer(Op op, int32_t part, int32_t bucket) const {
    Instruction n;
    n.op = op;
    n.lane = plan::Lane::kDataParallel;
    n.micro_batch = each_ ? part : -1;
    n.bucket = bucket;
    return n;
  }

  void reduce(int32_t part, int32_t bucket) {
    const std::vector<int32_t>& blocks = buckets_[static_cast<size_t>(bucket)];
    for (const ModelSum& sum : layout_.model_sums()) sum_over_model(part, bucket, sum);
    if (!s_.many()) return;
    for (const bool experts : layout_.transfer_kinds(blocks)) {
      const bool any =
          std::any_of(blocks.begin(), blocks.end(), [&](int32_t b) { return trains(b, experts); });
      if (any && (layout_.parts(experts) * s_.replicas > 1 || layout_.options().own_gradient_shards))
        sum_over_data(part, bucket, blocks, experts);
    }
  }

  /// Sums in place. Every rank needs the full sum, because data-parallel ranks divide the rank's share of the
  /// tensor.
  void sum_over_model(int32_t part, int32_t bucket, const ModelSum& sum) {
    const std::vector<int32_t>& blocks = buckets_[static_cast<size_t>(bucket)];
    Instruction n = transfer(sum.op, part, bucket);
    for (const int32_t block : blocks) {
      const std::vector<int32_t>& groups = layout_.groups_of(block);
      if (std::none_of(groups.begin(), groups.end(),
                       [&](int32_t g) { return ShardLayout::takes(sum, layout_.group(g)); }))
        continue;
      n.read(Operand::kSent, whole(part, block)), n.write(Operand::kReceived, whole(part, block));
    }
    if (n.uses.empty()) return;
    n.sent_bytes = model_sum_bytes(layout_, blocks, sum);
    plan_.instructions.push_back(std::move(n));
  }

  /// True if the block has trainable groups of divided experts (`experts`), or of other parameters
  /// (otherwise).
  bool trains(int32_t block, bool experts) const {
    const std::vector<int32_t>& groups = layout_.groups_of(block);
    return std::any_of(groups.begin(), groups.end(), [&](int32_t g) {
      return layout_.group(g).trainable && layout_.group(g).experts == experts;
    });
  }

  void sum_over_data(int32_t part, int32_t bucket, const std::vector<int32_t>& blocks, bool experts) {
    // The sums of a shard wait in f32 for the sums of its replicas, unless their final place can hold them
    // meanwhile.
    const bool hop = s_.replicas > 1 && (each_ || layout_.rounds_gradients());
    Instruction sum = transfer(Op::kReduceGrad, part, bucket);
    Instruction across = transfer(Op::kReduceReplicas, part, bucket);
    Instruction gather = transfer(Op::kGatherGrad, part, bucket);
    sum.experts = across.experts = gather.experts = experts;
    for (const int32_t block : blocks) {
      if (!trains(block, experts)) continue;
      const SlotId from = whole(part, block), to = reduced(part, block);
      const SlotId shard = hop ? sums_slot(part, block) : to;
      sum.read(Operand::kSent, from), sum.write(Operand::kReceived, shard);
      across.read(Operand::kSent, shard), across.write(Operand::kReceived, to);
      gather.read(Operand::kSent, to), gather.write(Operand::kReceived, whole(part, block));
    }
    (hop ? across : sum).accumulate = each_ && part > 0;
    if (layout_.options().gradient_buckets && !experts) sum.holds = std::exchange(in_flight_, sum.reads());
    sum.sent_bytes = reduce_scatter_bytes(layout_, blocks, s_, experts);
    across.sent_bytes = replica_bytes(layout_, blocks, s_, experts);
    gather.sent_bytes = gradient_gather_bytes(layout_, blocks, experts);
    plan_.instructions.push_back(std::move(sum));
    if (s_.replicas > 1) plan_.instructions.push_back(std::move(across));
    if (layout_.over_mesh().reduction().gather && part == last_)
      plan_.instructions.push_back(std::move(gather));
  }

  /// Returns the slot for sums of a block, which both kinds of groups share.
  SlotId sums_slot(int32_t part, int32_t block) {
    SlotId& slot = sums_.try_emplace({part, block}, -1).first->second;
    if (slot < 0)
      slot = plan_.add_slot({fmt::format("shard_sums.{}.{}", block, part), plan::Category::kBuckets,
                             layout_.block_state(block).shard_sums, false, Role::kShardSums, block});
    return slot;
  }

  /// Makes norm and optimizer read the sums: the full sums if the reduction gathers them (DDP), else this
  /// rank's shard.
  void read_reduced(Instruction* n) {
    std::erase_if(n->uses, [](const plan::Use& use) { return use.operand == Operand::kGradients; });
    const bool gathers = layout_.over_mesh().reduction().gather;
    const SlotId sums = gathers ? whole(last_, n->block) : reduced(last_, n->block);
    n->uses.insert(n->uses.begin(), {Operand::kGradients, sums, false});
  }

  struct Writes {
    size_t first, last;  // their indices
  };

  plan::Plan& plan_;
  const ShardLayout& layout_;
  const DataParallelStrategy& s_;
  bool each_;
  int32_t last_;
  std::vector<std::vector<int32_t>> buckets_;
  std::map<std::pair<int32_t, int32_t>, Writes> writes_;  // keyed by part and block
  // Keyed by part and block; only slots that are not persistent.
  std::map<std::pair<int32_t, int32_t>, SlotId> whole_, sums_;
  std::vector<std::vector<std::pair<int32_t, int32_t>>> ready_;  // indexed by instruction: part and bucket
  std::vector<SlotId> in_flight_;                                // full gradients that the last transfer uses
};

}  // namespace

std::vector<std::vector<int32_t>> gradient_buckets(const std::vector<int64_t>& bytes_by_block,
                                                   int64_t bucket_bytes, int64_t first_bucket_bytes) {
  std::vector<std::vector<int32_t>> buckets;
  int64_t filled = 0;
  bool open = false;
  for (size_t b = bytes_by_block.size(); b-- > 0;) {
    if (bytes_by_block[b] == 0) continue;
    if (!open) buckets.emplace_back(), filled = 0;
    buckets.back().push_back(static_cast<int32_t>(b));
    filled += bytes_by_block[b];
    open = filled < (buckets.size() == 1 ? first_bucket_bytes : bucket_bytes);
  }
  return buckets;
}

void reduce_gradients(plan::Plan* plan, const ShardLayout& layout, const DataParallelStrategy& strategy,
                      int64_t most_micro_batches) {
  if (strategy.many() || !layout.model_sums().empty()) Pass(plan, layout, strategy, most_micro_batches).run();
}

}  // namespace hawser::parallel
