// Model sums test: sums of gradients that each tensor-parallel rank computes in part. Plans of small models
// run on threads with integer gradients. The optimizer's input must be the sum by definition, over ranks that
// the test derives from the names of parameters.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <map>
#include <mutex>

#include "engine/parallel/bucket_runtime.h"
#include "tests/harness/closed_forms.h"
#include "tests/harness/spawn_ranks.h"
#include "tests/parallel/planned_rank.h"

namespace hawser::parallel {
namespace model_sums_test {

using mesh::Axis;
using plan::Instruction;
using plan::Op;
using plan::Operand;
using plan::Plan;
using plan::Role;

constexpr int32_t kMicroBatches = 2;

struct Case {
  int64_t tp = 2, replicas = 1, shards = 1, cp = 1, stage = 0;
  bool each = false, sequence_parallel = true, pure = false, tied = false;
  int64_t kv_heads = 2, bucket_bytes = 1;

  mesh::DeviceMesh mesh() const {
    mesh::Degrees degrees;
    degrees.dp_replicate = replicas, degrees.dp_shard = shards, degrees.cp = cp, degrees.tp = tp;
    return mesh::DeviceMesh(degrees);
  }
  std::string text() const {
    return "tp " + std::to_string(tp) + ", " + std::to_string(replicas) + " x " + std::to_string(shards) +
           ", cp " + std::to_string(cp) + ", stage " + std::to_string(stage) + (each ? ", each" : "") +
           (sequence_parallel ? ", sp" : "") + (pure ? ", pure" : "") + (tied ? ", tied" : "") +
           ", kv heads " + std::to_string(kv_heads) + ", buckets of " + std::to_string(bucket_bytes);
  }
};

nn::ModelConfig model_of(const Case& c) {
  nn::ModelConfig m = testing::odd_model(2, c.tied);
  m.heads = 4, m.kv_heads = c.kv_heads, m.width = 16, m.mlp_width = 24;
  m.qk_norm = true;
  m.bias = {.q = true, .k = true, .v = true, .o = true, .gate = true, .up = true, .down = true, .norm = true};
  return m;
}

/// One rank of a case: its layout and its train plan.
struct Planned {
  Planned(const Case& c, int64_t rank) : table(model_of(c), true, {}, c.tp), layout(table, options(c, rank)) {
    plan::Sizes sizes = testing::small_sizes(2, c.tied);
    sizes.state.clear();
    for (int32_t b = 0; b < layout.blocks(); ++b) sizes.state.push_back(layout.block_state(b));
    sizes.one_tied_gradient = c.tied && c.pure;
    if (c.pure) sizes.lookup_gradient = 0;
    strategy = strategy_of(c);
    const bool fresh = strategy.reduces_each(kMicroBatches);
    train = plan::train_plan(sizes, plan::whole_model(layout.blocks(), kMicroBatches), kMicroBatches,
                             fresh ? plan::Accumulation::kFresh : plan::Accumulation::kInPlace);
    reduce_gradients(&train, layout, strategy, kMicroBatches);
    gather_updated_weights(&train, layout, strategy);
    gather_weights_for_use(&train, layout, strategy);
    plan::finish(&train);
  }
  static DataParallelStrategy strategy_of(const Case& c) {
    const StateLayout over_mesh(c.mesh(), c.stage, 0);
    DataParallelStrategy d;
    d.stage = c.stage;
    d.shards = degree(c.mesh(), over_mesh.reduction().scatter);
    d.replicas = degree(c.mesh(), over_mesh.reduction().across);
    d.per_micro_batch = c.each;
    d.wire = c.pure ? DType::kBf16 : DType::kF32;
    d.bucket_bytes = d.first_bucket_bytes = c.bucket_bytes;
    return d;
  }
  static ShardLayout::Options options(const Case& c, int64_t rank) {
    const DataParallelStrategy d = strategy_of(c);
    ShardLayout::Options o;
    if (c.pure) o.compute = o.state = DType::kBf16;
    o.mesh = c.mesh(), o.rank = rank, o.stage = c.stage;
    o.sequence_parallel = c.sequence_parallel;
    o.gradient_buckets = d.gradient_buckets(kMicroBatches, false);
    o.own_gradient_shards = o.gradient_buckets || d.reduces_each(kMicroBatches);
    return o;
  }

  nn::ParameterTable table;
  ShardLayout layout;
  DataParallelStrategy strategy;
  Plan train;
};

/// Returns the gradient that a backward leaves on `rank`, small enough that bf16 holds every sum of them.
float made(int64_t rank, int32_t group, int64_t element, int32_t micro_batch, Op by) {
  const int64_t mixed = rank * 7 + group * 5 + element * 3 + micro_batch * 11 + (by == Op::kLoss ? 1 : 0);
  return static_cast<float>(mixed * 2654435761 % 1009 % 3);
}

/// Returns the ranks whose gradients of these parameters are parts of one sum, by what each rank computes.
std::vector<int64_t> summed_ranks(const Case& c, const nn::ParameterTable& table, int32_t group,
                                  int64_t rank) {
  const auto p = std::find_if(table.all().begin(), table.all().end(),
                              [&](const nn::Parameter& each) { return each.group == group; });
  const auto has = [&](const char* part) { return p->name.find(part) != std::string::npos; };
  const bool of_heads = has("q_norm") || has("k_norm");
  const bool of_rows = !of_heads && has("blocks.") && has("norm");
  int64_t together = 1;  // adjacent ranks in tp
  if (of_heads || (of_rows && c.sequence_parallel)) together = c.tp;
  if (has(".k.") || has(".v.")) together = std::max<int64_t>(1, c.tp / c.kv_heads);
  std::vector<int64_t> ranks;
  for (int64_t r = 0; r < c.mesh().world_size(); ++r)
    if (c.mesh().coordinate(r, Axis::kTp) / together == c.mesh().coordinate(rank, Axis::kTp) / together)
      ranks.push_back(r);  // any sample and column
  return ranks;
}

/// Executes a plan on one rank: gradients are those of made(), transfers are real.
class Player {
 public:
  Player(const Case& c, const Planned& planned, comm::RankComm& end)
      : c_(c), p_(planned), rank_(end.rank()), memory_(static_cast<size_t>(planned.train.peak_bytes) + 64) {
    const auto group = [&](const std::vector<mesh::SubAxis>& axes, const char* name) {
      const std::vector<int64_t> ranks = mesh::group(c.mesh(), rank_, axes);
      std::unique_ptr<comm::ProcessGroup> made;
      if (ranks.size() > 1) made = end.make_group({ranks.begin(), ranks.end()}, name);
      return made;
    };
    using enum Axis;
    const GradientReduction& reduction = p_.layout.over_mesh().reduction();
    groups.dp = group({kDpReplicate, kDpShard, kCp, kTp}, "world");
    groups.shard = group(reduction.scatter, "shard"), groups.replica = group(reduction.across, "replica");
    for (const ModelSum& sum : p_.layout.model_sums())
      (sum.op == Op::kReduceTp ? groups.tp_sums : groups.kv_sums) = group(sum.axes, "model");
    runtime_ = std::make_unique<BucketRuntime>(p_.layout, p_.strategy, groups, arena(), nullptr, nullptr);
    runtime_->bind(p_.train);
  }

  void run() {
    for (size_t i = 0; i < p_.train.instructions.size(); ++i) {
      const Instruction& n = p_.train.instructions[i];
      if (n.is_transfer() && n.op != Op::kUnshard) runtime_->wait(n.lane, runtime_->start(p_.train, i));
      if (!n.is_transfer()) backward(n);
      if (n.op == Op::kGradNorm && n.block >= 0) check(n);
    }
  }

  int64_t checked = 0;
  DataParallelGroups groups;

 private:
  char* arena() {
    return reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(memory_.data()) + 63) / 64 * 64);
  }
  void write(char* to, float value, bool add) {
    const DType type = p_.layout.options().state;
    const float was = add ? read(to) : 0;
    if (type == DType::kF32) {
      *reinterpret_cast<float*>(to) = was + value;
    } else {
      *reinterpret_cast<uint16_t*>(to) = static_cast<uint16_t>(std::bit_cast<uint32_t>(was + value) >> 16);
    }
  }
  float read(const char* from) const {
    if (p_.layout.options().state == DType::kF32) return *reinterpret_cast<const float*>(from);
    return std::bit_cast<float>(static_cast<uint32_t>(*reinterpret_cast<const uint16_t*>(from)) << 16);
  }
  int64_t width() const { return dtype_bytes(p_.layout.options().state); }

  /// A tied table's gradient consists of the head's part and, if both are stored separately, of the part that
  /// is joined later.
  void backward(const Instruction& n) {
    const bool makes = c_.pure ? n.op == Op::kRoundGrad
                               : n.op == Op::kLoss || n.op == Op::kBackward || n.op == Op::kJoinHeadGrad;
    if (!makes || (c_.tied && !c_.pure && n.op == Op::kBackward && n.block == 0)) return;
    for (const plan::Use& use : n.uses) {
      const plan::Slot& slot = p_.train.slot(use.slot);
      if (!use.written || use.operand != Operand::kGradients) continue;
      for (const int32_t index : p_.layout.groups_of(slot.block)) {
        const GroupLayout& g = p_.layout.group(index);
        char* const at = arena() + slot.offset + g.gradients;
        for (int64_t e = 0; e < p_.layout.parts() * g.shard; ++e)
          write(at + e * width(), e < g.elements ? made(rank_, index, e, n.micro_batch, n.op) : 0,
                n.accumulate);
      }
    }
  }

  void check(const Instruction& n) {
    const plan::Slot& slot = p_.train.slot(n[Operand::kGradients]);
    for (const int32_t index : p_.layout.groups_of(n.block)) {
      const GroupLayout& g = p_.layout.group(index);
      const std::vector<int64_t> ranks = summed_ranks(c_, p_.table, index, rank_);
      for (int64_t e = g.state.begin; e < g.state.end; ++e) {
        const bool whole = slot.role == Role::kGradients;
        const char* const at = arena() + slot.offset + (whole ? g.gradients : g.gradient_shard) +
                               (e - (whole ? 0 : g.state.begin)) * width();
        float sum = 0;
        for (const int64_t r : ranks)
          for (int32_t mb = 0; mb < kMicroBatches; ++mb) {
            const bool joined = c_.tied && !c_.pure && n.block == 0;
            const bool by_head = joined || (!c_.pure && n.block == p_.layout.blocks() - 1);
            sum += made(r, index, e, mb, by_head ? Op::kLoss : Op::kBackward);
            if (joined) sum += made(r, index, e, mb, Op::kJoinHeadGrad);
          }
        ASSERT_EQ(read(at), sum) << "rank " << rank_ << ", block " << n.block << ", group " << index
                                 << ", element " << e;
        ++checked;
      }
    }
  }

  const Case& c_;
  const Planned& p_;
  int64_t rank_;
  std::vector<char> memory_;
  std::unique_ptr<BucketRuntime> runtime_;
};

int64_t sent(const comm::ProcessGroup* group) {
  return group == nullptr
             ? 0
             : group->traffic().by_operation[static_cast<size_t>(comm::Operation::kAllReduce)].bytes;
}

void play(const Case& c) {
  SCOPED_TRACE(c.text());
  std::vector<std::unique_ptr<Planned>> planned;
  for (int64_t r = 0; r < c.mesh().world_size(); ++r) planned.push_back(std::make_unique<Planned>(c, r));
  std::mutex mutex;
  int64_t checked = 0;  // the last ranks may hold only padding
  testing::spawn_ranks(static_cast<int32_t>(planned.size()), [&](comm::RankComm& end) {
    const Planned& mine = *planned[static_cast<size_t>(end.rank())];
    Player player(c, mine, end);
    player.run();
    const std::lock_guard lock(mutex);
    checked += player.checked;
    std::map<Op, int64_t> bytes;
    for (const Instruction& n : mine.train.instructions) bytes[n.op] += n.sent_bytes;
    EXPECT_EQ(bytes[Op::kReduceTp], sent(player.groups.tp_sums.get())) << "the plan counts what is sent";
    EXPECT_EQ(bytes[Op::kReduceKv], sent(player.groups.kv_sums.get()));
    for (const testing::ClosedForm& form :
         testing::closed_forms(mine.layout, mine.strategy, kMicroBatches, {c.tied, 0})) {
      const bool of_model = form.op == Op::kReduceTp || form.op == Op::kReduceKv;
      if (of_model) {
        EXPECT_EQ(bytes[form.op], form.bytes) << plan::op_name(form.op);
      }
    }
  });
  EXPECT_GT(checked, 0);
}

TEST(ModelSums, TheOptimizerReadsTheSumsOfEveryStage) {
  for (const int64_t tp : {2, 4})
    for (const auto& [replicas, shards, cp] :
         {std::tuple{1, 1, 1}, {1, 2, 1}, {2, 1, 1}, {1, 3, 1}, {2, 2, 1}, {1, 2, 2}})
      for (int64_t stage = 0; stage <= (shards * cp > 1 ? 3 : 0); ++stage)
        for (const bool each : {false, true})
          for (const bool pure : {false, true})
            play({.tp = tp,
                  .replicas = replicas,
                  .shards = shards,
                  .cp = cp,
                  .stage = stage,
                  .each = each,
                  .pure = pure});
}

TEST(ModelSums, HoldForTiedTablesAnyBucketsAndAnyKeyValueHeads) {
  for (const int64_t kv_heads : {1, 2, 4})
    for (const bool tied : {false, true})
      for (const bool pure : {false, true})
        for (const bool sequence_parallel : {false, true})
          for (const int64_t bucket : {4000, 1 << 20})
            play({.tp = 4,
                  .shards = 2,
                  .stage = 2,
                  .each = true,
                  .sequence_parallel = sequence_parallel,
                  .pure = pure,
                  .tied = tied,
                  .kv_heads = kv_heads,
                  .bucket_bytes = bucket});
}

/// Returns the transfers of a plan in their order.
std::vector<Op> transfers(const Plan& plan) {
  std::vector<Op> ops;
  for (const Instruction& n : plan.instructions)
    if (n.is_transfer()) ops.push_back(n.op);
  return ops;
}

TEST(ModelSums, ComeBeforeTheSumsOverSamplesOfTheSameBucket) {
  using enum Op;
  const Case c{.tp = 4, .replicas = 2, .shards = 2, .stage = 2, .bucket_bytes = 1 << 20};
  EXPECT_EQ(transfers(Planned(c, 0).train),
            (std::vector<Op>{kReduceTp, kReduceKv, kReduceGrad, kReduceReplicas, kUnshard}));
  const Case alone{.tp = 4, .bucket_bytes = 1 << 20};
  EXPECT_EQ(transfers(Planned(alone, 0).train), (std::vector<Op>{kReduceTp, kReduceKv}))
      << "one rank reads all samples";
}

TEST(ModelSums, AreOnlyThoseThatAreNeeded) {
  const Case whole_heads{.tp = 2, .bucket_bytes = 1 << 20};
  EXPECT_EQ(transfers(Planned(whole_heads, 0).train), (std::vector<Op>{Op::kReduceTp}));
  const Case one_head{.tp = 2, .kv_heads = 1, .bucket_bytes = 1 << 20};
  EXPECT_EQ(transfers(Planned(one_head, 0).train), (std::vector<Op>{Op::kReduceTp}))
      << "all of tp holds the one head";
  const Case rows{.tp = 2, .sequence_parallel = false, .bucket_bytes = 1 << 20};
  const Planned without(rows, 0), with(whole_heads, 0);
  EXPECT_LT(without.layout.model_sums().size(), 2u);
  const auto bytes = [](const Planned& p) {
    return testing::closed_forms(p.layout, p.strategy, kMicroBatches, {})[0].bytes;
  };
  EXPECT_LT(bytes(without), bytes(with)) << "norms of heads only";
  EXPECT_TRUE(transfers(Planned({.tp = 1}, 0).train).empty());
}

}  // namespace model_sums_test
}  // namespace hawser::parallel
