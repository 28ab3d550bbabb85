// State layout test: checks the layouts on every mesh of up to 16 data-parallel ranks at every stage. Each
// element is counted once and written once, and starts with its value on every rank that keeps it. The
// transfers of a reduction, replayed on symbols, give every rank the sum over all ranks.
#include "engine/parallel/state_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>

#include "tests/parallel/planned_rank.h"

namespace hawser::parallel {
namespace state_layout_test {

using testing::odd_model;

/// One mesh and stage. Rank r * shards + s is shard s of replica r.
struct Case {
  int64_t replicas = 1, shards = 1, stage = 0;

  int64_t ranks() const { return replicas * shards; }
  mesh::DeviceMesh mesh() const {
    mesh::Degrees degrees;
    degrees.dp_replicate = replicas, degrees.dp_shard = shards;
    return mesh::DeviceMesh(degrees);
  }
  std::string text() const {
    return std::to_string(replicas) + " x " + std::to_string(shards) + ", stage " + std::to_string(stage);
  }
};

std::vector<Case> every_case() {
  std::vector<Case> cases;
  for (int64_t replicas = 1; replicas <= 16; ++replicas)
    for (int64_t shards = 1; replicas * shards <= 16; ++shards)
      for (int64_t stage = 0; stage <= 3; ++stage) cases.push_back({replicas, shards, stage});
  return cases;
}

std::vector<std::unique_ptr<ShardLayout>> layouts_of(const nn::ParameterTable& table, const Case& c,
                                                     DType compute) {
  std::vector<std::unique_ptr<ShardLayout>> all;
  for (int64_t rank = 0; rank < c.ranks(); ++rank) {
    ShardLayout::Options o;
    o.compute = compute, o.mesh = c.mesh(), o.rank = rank, o.stage = c.stage;
    all.push_back(std::make_unique<ShardLayout>(table, o));
  }
  return all;
}

/// Counts how often each element of a range is named.
class Tally {
 public:
  explicit Tally(int64_t elements) : times_(static_cast<size_t>(elements)) {}
  void add(int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) ++times_.at(static_cast<size_t>(i));
  }
  bool all(int64_t times) const { return std::count(times_.begin(), times_.end(), times) == size(); }

 private:
  int64_t size() const { return static_cast<int64_t>(times_.size()); }
  std::vector<int64_t> times_;
};

TEST(StateLayout, EveryElementIsCountedOnceAndKeptByEveryReplica) {
  for (const bool frozen : {false, true}) {
    const nn::ParameterTable table(
        odd_model(1, true), true,
        frozen ? std::vector<std::string>{"embedding.*"} : std::vector<std::string>{});
    for (const Case& c : every_case()) {
      SCOPED_TRACE(c.text());
      for (const DType compute : {DType::kF32, DType::kBf16}) {
        const auto ranks = layouts_of(table, c, compute);
        for (int32_t g = 0; g < static_cast<int32_t>(table.groups().size()); ++g) {
          const int64_t elements = table.groups()[static_cast<size_t>(g)].elements;
          Tally counted(elements), kept(elements);
          for (const auto& rank : ranks) {
            const mesh::FlatRange run = rank->group(g).state;
            EXPECT_EQ(run.begin % 64, 0) << "norms are summed over whole blocks";
            kept.add(run.begin, run.end);
            if (rank->group(g).owns_state()) counted.add(run.begin, run.end);
          }
          EXPECT_TRUE(counted.all(1));
          EXPECT_TRUE(kept.all(c.stage == 0 ? c.ranks() : c.replicas));
        }
      }
    }
  }
}

TEST(StateLayout, ARankKnowsWhichElementsEveryOtherKeepsAndWhere) {
  const nn::ParameterTable table(odd_model(1, true));
  for (const Case& c : every_case()) {
    SCOPED_TRACE(c.text());
    const auto ranks = layouts_of(table, c, DType::kF32);
    for (const auto& rank : ranks) {
      for (const nn::Parameter& p : table.all()) {
        const mesh::FlatRange group = rank->group(p.group).state;
        std::vector<mesh::ElementRun> expected;
        const int64_t begin = std::max(p.offset, group.begin), end = std::min(p.offset + p.size, group.end);
        if (begin < end) expected.push_back({begin - p.offset, end - p.offset, begin - group.begin});
        for (const auto& other : ranks)
          EXPECT_EQ(other->state_of(p, rank->options().rank), expected) << p.name;
      }
    }
  }
}

TEST(StateLayout, EveryElementOfEveryParameterIsWrittenOnce) {
  const nn::ParameterTable table(odd_model(1, true));
  for (const Case& c : every_case()) {
    SCOPED_TRACE(c.text());
    const auto ranks = layouts_of(table, c, DType::kBf16);
    for (size_t i = 0; i < table.all().size(); ++i) {
      const nn::Parameter& p = table.all()[i];
      Tally written(p.size);
      for (const auto& rank : ranks) {
        const mesh::FlatRange run = rank->group(p.group).state;
        for (const mesh::ElementRun& part : rank->to_write(p, i)) {
          EXPECT_GE(p.offset + part.begin, run.begin) << "it writes what it has";
          EXPECT_LE(p.offset + part.end, run.end);
          EXPECT_EQ(part.at, p.offset + part.begin - run.begin);
          written.add(part.begin, part.end);
        }
      }
      EXPECT_TRUE(written.all(1)) << p.name;
    }
  }
}

/// A manifest lists every piece, so the number of pieces must be about tensors plus ranks, not tensors times
/// ranks.
TEST(StateLayout, PiecesAreAsManyAsTensorsAndRanksTogether) {
  const nn::ParameterTable table(odd_model(60, false));
  const int64_t tensors = static_cast<int64_t>(table.all().size());
  ASSERT_GT(tensors, 700);
  for (const Case& c : {Case{484, 1, 0}, Case{100, 4, 0}, Case{100, 4, 3}}) {
    SCOPED_TRACE(c.text());
    int64_t pieces = 0, most = 0, least = INT64_MAX;
    for (const auto& rank : layouts_of(table, c, DType::kBf16)) {
      int64_t elements = 0;
      for (size_t i = 0; i < table.all().size(); ++i) {
        elements += rank->elements_to_write(i);
        pieces += rank->elements_to_write(i) > 0;
      }
      most = std::max(most, elements), least = std::min(least, elements);
    }
    const int64_t parts = c.stage == 0 ? 1 : c.shards;
    const int64_t cuts = c.ranks() + (parts - 1) * static_cast<int64_t>(table.groups().size());
    EXPECT_LE(pieces, tensors + cuts);
    if (c.stage == 0) {
      EXPECT_LE(most - least, 1) << "all write alike";
    }
  }
}

/// Masters receive initial values where they are kept; weights are computed from them on the same rank, or
/// are sent by the ranks of the same reduction.
TEST(StateLayout, InitialValuesReachAllWeights) {
  const nn::ParameterTable table(odd_model(1, false));
  for (const Case& c : every_case()) {
    SCOPED_TRACE(c.text());
    const auto ranks = layouts_of(table, c, DType::kBf16);
    for (const auto& rank : ranks) {
      const StateLayout& layout = rank->over_mesh();
      for (int32_t g = 0; g < static_cast<int32_t>(table.groups().size()); ++g) {
        const GroupedTensor group = whole_group(rank->group(g).elements);
        const mesh::FlatRange weights = run_of(layout.weights(group), rank->options().rank);
        const mesh::FlatRange state = rank->group(g).state;
        if (layout.weights_sharded() || !layout.state_sharded()) {
          EXPECT_EQ(weights.begin, state.begin);
          EXPECT_EQ(weights.end, state.end);
          continue;
        }
        Tally sent(rank->group(g).elements);
        for (const int64_t other :
             mesh::group(layout.mesh(), rank->options().rank, layout.reduction().scatter)) {
          const mesh::FlatRange run = ranks[static_cast<size_t>(other)]->group(g).state;
          sent.add(run.begin, run.end);
        }
        EXPECT_TRUE(sent.all(1)) << "and weights are whole: " << weights.size();
        EXPECT_EQ(weights.size(), rank->group(g).elements);
      }
    }
  }
}

/// The layout of a parameter, in its own shape and indices, agrees with that of its group.
TEST(StateLayout, ParametersLieWhereTheirGroupsDo) {
  const nn::ParameterTable table(odd_model(1, true));
  for (const Case& c : every_case()) {
    SCOPED_TRACE(c.text());
    const auto ranks = layouts_of(table, c, DType::kF32);
    const StateLayout& layout = ranks[0]->over_mesh();
    for (const nn::Parameter& p : table.all()) {
      const mesh::PlacedTensor state = layout.state({p.shape, p.offset, table.group_of(p).elements});
      for (const auto& rank : ranks) {
        const mesh::FlatRange run = rank->group(p.group).state;
        const int64_t begin = std::max(p.offset, run.begin), end = std::min(p.offset + p.size, run.end);
        const std::vector<mesh::Block> blocks = state.blocks(rank->options().rank);
        int64_t elements = 0;
        for (const mesh::Block& block : blocks) elements += block.box.elements();
        ASSERT_EQ(elements, std::max<int64_t>(0, end - begin)) << p.name;
        if (blocks.empty()) continue;
        const int64_t memory_begin =
            rank->state_sharded() ? run.begin : p.offset;  // begin of the group, or of the tensor
        EXPECT_EQ(blocks[0].position(blocks[0].box.begin), begin - memory_begin) << p.name;
        EXPECT_EQ(state.is_owner(rank->options().rank), rank->group(p.group).owns_state());
      }
    }
  }
}

std::vector<int64_t> ranks_from(int64_t first, int64_t count, int64_t step) {
  std::vector<int64_t> ranks;
  for (int64_t i = 0; i < count; ++i) ranks.push_back(first + i * step);
  return ranks;
}

TEST(StateLayout, ReductionsGoOverTheRanksThatThePapersName) {
  for (const Case& c : every_case()) {
    SCOPED_TRACE(c.text());
    const StateLayout layout(c.mesh(), c.stage, 0);
    const GradientReduction& r = layout.reduction();
    const bool zero = c.stage > 0 && c.shards > 1;
    EXPECT_EQ(r.gather, !zero && c.ranks() > 1);
    EXPECT_EQ(r.across.empty(), !zero || c.replicas == 1);
    for (int64_t rank = 0; rank < c.ranks(); ++rank) {
      const int64_t replica = rank / c.shards, shard = rank % c.shards;
      EXPECT_EQ(mesh::group(c.mesh(), rank, r.scatter),
                zero ? ranks_from(replica * c.shards, c.shards, 1) : ranks_from(0, c.ranks(), 1));
      EXPECT_EQ(mesh::group(c.mesh(), rank, r.across),
                zero ? ranks_from(shard, c.replicas, c.shards) : ranks_from(rank, 1, 1));
    }
  }
}

/// Counts, for each block of 64 elements, of each rank's addend in the values that a rank holds.
using Addends = std::vector<std::array<int, 16>>;

TEST(StateLayout, TheTransfersOfAReductionSumEveryRankOnceWhereTheOptimizerWorks) {
  constexpr int64_t kElements = 64 * 37;  // some ranks have fewer elements than others, some only padding
  const GroupedTensor group = whole_group(kElements);
  for (const Case& c : every_case()) {
    SCOPED_TRACE(c.text());
    const StateLayout layout(c.mesh(), c.stage, 0);
    const GradientReduction& r = layout.reduction();
    const auto n = static_cast<size_t>(c.ranks());
    const auto moved = [&](const std::vector<Addends>& from, const std::vector<mesh::SubAxis>& axes,
                           bool mine) {  // the sum over `axes`, for the receiver's or the sender's part
      std::vector<Addends> to(n, Addends(kElements / 64));
      for (size_t rank = 0; rank < n; ++rank) {
        for (const int64_t sender : mesh::group(c.mesh(), static_cast<int64_t>(rank), axes)) {
          const mesh::FlatRange part =
              run_of(layout.parts(group), mine ? static_cast<int64_t>(rank) : sender);
          for (auto b = static_cast<size_t>(part.begin / 64); b < static_cast<size_t>(part.end / 64); ++b)
            for (size_t i = 0; i < 16; ++i) to[rank][b][i] += from[static_cast<size_t>(sender)][b][i];
        }
      }
      return to;
    };
    std::vector<Addends> held(n, Addends(kElements / 64));
    for (size_t rank = 0; rank < n; ++rank)
      for (auto& block : held[rank]) block[rank] = 1;
    held = moved(held, r.scatter, true);
    if (!r.across.empty()) held = moved(held, r.across, true);
    if (r.gather) held = moved(held, r.scatter, false);
    for (size_t rank = 0; rank < n; ++rank) {
      const mesh::FlatRange state = run_of(layout.state(group), static_cast<int64_t>(rank));
      for (auto b = static_cast<size_t>(state.begin / 64); b < static_cast<size_t>(state.end / 64); ++b)
        for (size_t i = 0; i < 16; ++i) EXPECT_EQ(held[rank][b][i], i < n ? 1 : 0) << "rank " << rank;
    }
  }
}

/// Returns the bytes that one rank sends, by operation.
std::map<plan::Op, int64_t> sent_by(const plan::Plan& plan) {
  std::map<plan::Op, int64_t> bytes;
  for (const plan::Instruction& n : plan.instructions)
    if (n.sent_bytes > 0) bytes[n.op] += n.sent_bytes;
  return bytes;
}

TEST(StateLayout, PlansTransferWhatTheReductionSays) {
  for (const Case& c : every_case()) {
    if (c.stage > 0 && c.shards == 1 && c.replicas > 1) continue;  // the config refuses it
    const StateLayout layout(c.mesh(), c.stage, 0);
    const GradientReduction& r = layout.reduction();
    for (const DType wire : {DType::kF32, DType::kBf16}) {
      testing::Setting s;
      s.compute = s.strategy.wire = wire;
      s.strategy.stage = c.stage;
      s.strategy.shards = degree(c.mesh(), r.scatter), s.strategy.replicas = degree(c.mesh(), r.across);
      SCOPED_TRACE(c.text() + ": " + s.text());
      const testing::PlannedRank rank(s);
      const int64_t n = c.stage == 0 ? c.ranks() : c.shards, replicas = c.stage == 0 ? 1 : c.replicas;
      int64_t part = 0,
              piece = 0;  // all gradients: a rank's part of a sum, and a replica's piece of it
      for (const nn::ParameterGroup& g : rank.table().groups()) {
        const int64_t local = layout.parts(whole_group(g.elements)).local_elements();
        part += local, piece += (local + replicas - 1) / replicas;
      }
      auto bytes = sent_by(rank.train());
      EXPECT_EQ(bytes[plan::Op::kReduceGrad], (n - 1) * part * dtype_bytes(wire));
      EXPECT_EQ(bytes[plan::Op::kReduceReplicas], (replicas - 1) * piece * (4 + dtype_bytes(wire)));
      EXPECT_EQ(bytes[plan::Op::kGatherGrad], r.gather ? (n - 1) * part * 4 : 0);
    }
  }
}

TEST(StateLayout, SecondaryGroupsAreNeighboursInTheirShardGroup) {
  for (const Case& c : every_case()) {
    for (int64_t size = 2; c.stage == 3 && size <= c.shards; ++size) {
      if (c.shards % size != 0) continue;
      SCOPED_TRACE(c.text() + ", groups of " + std::to_string(size));
      const StateLayout layout(c.mesh(), c.stage, size);
      const mesh::PlacedTensor secondary = layout.secondary(whole_group(64 * 37));
      for (int64_t rank = 0; rank < c.ranks(); ++rank) {
        const std::vector<int64_t> members = mesh::group(c.mesh(), rank, layout.secondary_axes());
        EXPECT_EQ(members, ranks_from(rank - rank % c.shards % size, size, 1));
        Tally kept(64 * 37);
        for (const int64_t member : members) {
          const mesh::FlatRange run = run_of(secondary, member);
          kept.add(run.begin, run.end);
        }
        EXPECT_TRUE(kept.all(1));
      }
    }
  }
}

}  // namespace state_layout_test
}  // namespace hawser::parallel
