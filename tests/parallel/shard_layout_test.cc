// Shard layout test: shards partition every group, slots have no gaps or overlaps, and bytes equal the closed
// forms of the papers, padding included.
#include "engine/parallel/shard_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "tests/parallel/planned_rank.h"

namespace hawser::parallel {
namespace shard_layout_test {

using testing::odd_model;
using Options = ShardLayout::Options;

const std::vector<std::vector<std::string>> kFrozenSets = {
    {}, {"embedding.*"}, {"*.bias", "blocks.0.*"}, {"blocks.*.weight"}};

mesh::DeviceMesh shards_alone(int64_t parts) {
  mesh::Degrees degrees;
  degrees.dp_shard = parts;
  return mesh::DeviceMesh(degrees);
}

/// Returns every layout of a table on `parts` ranks that a strategy can request, for rank `index`.
std::vector<Options> every_option(int64_t parts, int64_t index) {
  std::vector<Options> all;
  for (const DType compute : {DType::kF32, DType::kBf16}) {
    for (int64_t stage = 0; stage <= 3; ++stage) {
      for (int64_t moments = 0; moments <= 2; ++moments) {
        for (const auto& [buckets, own] : {std::pair{false, false}, {false, true}, {true, true}}) {
          for (const bool training : {true, false}) {
            Options o;
            o.compute = compute;
            o.stage = stage, o.mesh = shards_alone(parts), o.rank = index;
            if (stage == 3 && parts % 2 == 0) o.reshard_group = 2;
            o.states = testing::kept_moments(training ? moments : 0);
            o.training = training;
            o.gradient_buckets = buckets, o.own_gradient_shards = own;
            all.push_back(o);
          }
        }
      }
    }
  }
  return all;
}

/// Returns the elements of one of `parts` shards by definition: equal shares of complete blocks of 64, padded
/// at the end.
int64_t padded_share(int64_t elements, int64_t parts) {
  int64_t share = 0;
  while (share * parts < elements) share += 64;
  return share;
}

TEST(ShardLayout, OwnedRangesPartitionEveryGroup) {
  for (const auto& frozen : kFrozenSets) {
    const nn::ParameterTable table(odd_model(2, true), true, frozen);
    for (const int64_t parts : {1, 2, 3, 4, 7, 16, 64}) {
      std::vector<int64_t> covered(table.groups().size());
      for (int64_t index = 0; index < parts; ++index) {
        Options o;
        o.stage = 3, o.mesh = shards_alone(parts), o.rank = index;
        const ShardLayout layout(table, o);
        for (size_t g = 0; g < covered.size(); ++g) {
          const GroupLayout& group = layout.group(static_cast<int32_t>(g));
          EXPECT_EQ(group.elements, table.groups()[g].elements);
          EXPECT_EQ(group.shard, padded_share(group.elements, parts));
          EXPECT_EQ(group.owned.begin, covered[g]) << parts << " ranks, group " << g;
          EXPECT_EQ(group.owned.begin % 64, 0) << "norms are summed over whole blocks";
          EXPECT_LE(group.owned.size(), group.shard);
          covered[g] = group.owned.end;
        }
      }
      for (size_t g = 0; g < covered.size(); ++g) EXPECT_EQ(covered[g], table.groups()[g].elements);
    }
  }
}

TEST(ShardLayout, StateIsOfTheShardFromStageOneOnElseOfAll) {
  const nn::ParameterTable table(odd_model(1, false));
  for (const int64_t parts : {1, 3}) {
    for (const Options& o : every_option(parts, parts - 1)) {
      const ShardLayout layout(table, o);
      EXPECT_EQ(layout.state_sharded(), o.stage >= 1 && parts > 1);
      EXPECT_EQ(layout.weights_sharded(), o.stage == 3 && parts > 1);
      for (size_t g = 0; g < table.groups().size(); ++g) {
        const GroupLayout& group = layout.group(static_cast<int32_t>(g));
        const mesh::FlatRange expected =
            layout.state_sharded() ? group.owned : mesh::FlatRange{0, group.elements};
        EXPECT_EQ(group.state.begin, expected.begin);
        EXPECT_EQ(group.state.end, expected.end);
      }
    }
  }
}

struct Piece {
  int64_t begin, bytes;
};

/// Checks that pieces of a slot, in the order of its groups, fill it without gap or overlap.
void expect_filled(const std::vector<Piece>& pieces, int64_t bytes, const char* slot) {
  int64_t at = 0;
  for (const Piece& piece : pieces) {
    EXPECT_EQ(piece.begin, at) << slot;
    at += piece.bytes;
  }
  EXPECT_EQ(at, bytes) << slot;
}

TEST(ShardLayout, GroupsFillTheSlotsOfTheirBlock) {
  for (const auto& frozen : kFrozenSets) {
    const nn::ParameterTable table(odd_model(2, true), true, frozen);
    for (const int64_t parts : {1, 2, 3, 4}) {
      for (const Options& o : every_option(parts, parts / 2)) {
        const ShardLayout layout(table, o);
        ASSERT_EQ(layout.blocks(), 4);
        for (int32_t b = 0; b < layout.blocks(); ++b) {
          std::vector<Piece> weights, unsharded, secondary, master, gradients, shards;
          std::array<std::vector<Piece>, plan::kStateCount> states;
          for (const int32_t index : layout.groups_of(b)) {
            const GroupLayout& g = layout.group(index);
            const int64_t e = dtype_bytes(g.type), whole = parts * g.shard;
            const int64_t state = layout.state_sharded() ? g.shard : g.elements;
            if (layout.weights_sharded()) {
              unsharded.push_back({g.weights, whole * e});
              weights.push_back({g.weight_shard, g.shard * e});
              if (o.reshard_group > 0)
                secondary.push_back({g.secondary, padded_share(g.elements, o.reshard_group) * e});
            } else {
              weights.push_back({g.weights, whole * e});
              EXPECT_EQ(g.weight_shard, g.weights + o.rank * g.shard * e);
            }
            if (g.has_master) master.push_back({g.master, state * 4});
            if (!o.training || !g.trainable) continue;
            gradients.push_back({g.gradients, whole * 4});
            if (o.own_gradient_shards)
              shards.push_back({g.gradient_shard, g.shard * 4});
            else
              EXPECT_EQ(g.gradient_shard, g.gradients + o.rank * g.shard * 4);
            for (size_t i = 0; i < plan::kStateCount; ++i)
              if (g.states[i].kept) states[i].push_back({g.states[i].at, state * 4});
          }
          const plan::BlockState s = layout.block_state(b);
          expect_filled(weights, s.weights, "weights");
          expect_filled(unsharded, s.unsharded, "unsharded");
          expect_filled(secondary, s.secondary, "secondary");
          expect_filled(master, s.master, "master");
          expect_filled(gradients, s.gradient_bucket, "gradient bucket");
          expect_filled(shards, s.gradient_shards, "gradient shards");
          for (size_t i = 0; i < plan::kStateCount; ++i)
            expect_filled(states[i], s.states[i], plan::kStates[i].label);
          EXPECT_EQ(s.gradients, o.gradient_buckets ? 0 : s.gradient_bucket);
        }
      }
    }
  }
}

/// Elements by how they are read, every group padded for `parts`.
struct Counts {
  int64_t product = 0, lookup = 0;  // all parameters
  int64_t product_trainable = 0, lookup_trainable = 0;
};

Counts padded_counts(const nn::ParameterTable& table, int64_t parts) {
  Counts c;
  for (const nn::ParameterGroup& g : table.groups()) {
    const int64_t n = parts * padded_share(g.elements, parts);
    (g.read == nn::Read::kProduct ? c.product : c.lookup) += n;
    if (g.trainable) (g.read == nn::Read::kProduct ? c.product_trainable : c.lookup_trainable) += n;
  }
  return c;
}

struct Totals {
  int64_t weights = 0, gradients = 0, optimizer = 0;
};

/// Returns what a rank of a strategy keeps all the time; gradients kept only as shards count as shards.
Totals kept(const nn::ParameterTable& table, int64_t stage, int64_t parts, DType compute, int64_t moments) {
  Options o;
  o.compute = compute;
  o.stage = stage, o.mesh = shards_alone(parts), o.states = testing::kept_moments(moments);
  o.gradient_buckets = o.own_gradient_shards = stage >= 2 && parts > 1;
  const ShardLayout layout(table, o);
  Totals t;
  for (int32_t b = 0; b < layout.blocks(); ++b) {
    const plan::BlockState s = layout.block_state(b);
    t.weights += s.weights;
    t.gradients += s.gradients + s.gradient_shards;
    t.optimizer += std::accumulate(s.states.begin(), s.states.end(), s.master);
  }
  return t;
}

TEST(ShardLayout, BytesOfEveryStageEqualTheClosedForms) {
  // P / (stage 3 ? N : 1) + G / (stage 2 ? N : 1) + O / (stage 1 ? N : 1) over padded elements. For
  // parameters of products, P is 2 (bf16) or 4 bytes, G is 4, and O is 4 per moment and, in bf16, 4 for the
  // master; for parameters that are looked up, P is always 4, without a master.
  for (const auto& frozen : kFrozenSets) {
    const nn::ParameterTable table(odd_model(3, false), true, frozen);
    for (const int64_t n : {1, 2, 3, 8}) {
      for (int64_t stage = 0; stage <= 3; ++stage) {
        for (const DType compute : {DType::kF32, DType::kBf16}) {
          for (int64_t moments = 0; moments <= 2; ++moments) {
            const Counts c = padded_counts(table, n);
            const Counts whole = padded_counts(table, stage >= 1 ? n : 1);  // unsharded state is not padded
            const int64_t trainable = c.product_trainable + c.lookup_trainable;
            const int64_t p = c.product * dtype_bytes(compute) + c.lookup * 4, g = trainable * 4;
            const int64_t o = (whole.product_trainable + whole.lookup_trainable) * moments * 4 +
                              (compute == DType::kBf16 ? whole.product * 4 : 0);
            const Totals t = kept(table, stage, n, compute, moments);
            EXPECT_EQ(t.weights, stage >= 3 ? p / n : p);
            EXPECT_EQ(t.gradients, stage >= 2 ? g / n : g);
            EXPECT_EQ(t.optimizer, stage >= 1 ? o / n : o);
          }
        }
      }
    }
  }
}

TEST(ShardLayout, BytesPerParameterAreThoseOfTheZeroPaper) {
  // The sizes need no padding. bf16 with gradients of 4 bytes takes 18, 6 + 12/N, 2 + 16/N, 18/N bytes for
  // each parameter of a product; fp32 takes 16, 8 + 8/N, 4 + 12/N, 16/N.
  nn::ModelConfig m = odd_model(2, false);
  m.vocab_size = 512, m.context = 64, m.width = 256, m.heads = m.kv_heads = 4, m.head_dim = 64;
  m.mlp_width = 1024;
  const nn::ParameterTable table(m);
  constexpr int64_t kN = 4;
  int64_t product = 0, lookup = 0;
  for (const nn::Parameter& p : table.all()) (p.read == nn::Read::kProduct ? product : lookup) += p.size;
  ASSERT_EQ(padded_counts(table, kN).product, product);
  ASSERT_EQ(padded_counts(table, kN).lookup, lookup);
  const auto bytes = [&](int64_t stage, DType compute) {
    const Totals t = kept(table, stage, kN, compute, 2);
    return t.weights + t.gradients + t.optimizer;
  };
  const auto both = [&](int64_t whole, int64_t shared) { return whole + shared / kN; };
  const int64_t wide = lookup;  // looked up in f32: 16 bytes; a separate master would be a second copy
  EXPECT_EQ(bytes(0, DType::kBf16), both(18 * product + 16 * wide, 0));
  EXPECT_EQ(bytes(1, DType::kBf16), both(6 * product + 8 * wide, 12 * product + 8 * wide));
  EXPECT_EQ(bytes(2, DType::kBf16), both(2 * product + 4 * wide, 16 * product + 12 * wide));
  EXPECT_EQ(bytes(3, DType::kBf16), both(0, 18 * product + 16 * wide));
  const int64_t all = product + lookup;
  EXPECT_EQ(bytes(0, DType::kF32), both(16 * all, 0));
  EXPECT_EQ(bytes(1, DType::kF32), both(8 * all, 8 * all));
  EXPECT_EQ(bytes(2, DType::kF32), both(4 * all, 12 * all));
  EXPECT_EQ(bytes(3, DType::kF32), both(0, 16 * all));
}

TEST(ShardLayout, ReplicasKeepAsMuchAsRanksOfOneCopyAlone) {
  for (const int64_t stage : {1, 2, 3}) {
    testing::Setting alone, replicated;
    alone.strategy.stage = replicated.strategy.stage = stage;
    alone.strategy.shards = replicated.strategy.shards = 3;
    replicated.strategy.replicas = 4;
    const testing::PlannedRank a(alone), b(replicated);
    EXPECT_EQ(a.train().persistent_bytes, b.train().persistent_bytes) << stage;
  }
}

TEST(ShardLayout, OneRankKeepsTheSerialStateAtEveryStage) {
  const nn::ParameterTable table(odd_model(2, true));
  for (const DType compute : {DType::kF32, DType::kBf16}) {
    const Totals serial = kept(table, 0, 1, compute, 2);
    for (int64_t stage = 1; stage <= 3; ++stage) {
      const Totals t = kept(table, stage, 1, compute, 2);
      EXPECT_EQ(t.weights, serial.weights);
      EXPECT_EQ(t.gradients, serial.gradients);
      EXPECT_EQ(t.optimizer, serial.optimizer);
    }
  }
}

TEST(ShardLayout, InferenceKeepsNoGradientsAndNoMoments) {
  const nn::ParameterTable table(odd_model(2, true));
  Options o;
  o.training = false, o.states = {};
  const ShardLayout layout(table, o);
  for (int32_t b = 0; b < layout.blocks(); ++b) {
    const plan::BlockState s = layout.block_state(b);
    EXPECT_EQ(s.gradients + s.gradient_bucket + s.gradient_shards, 0);
    EXPECT_EQ(s.states, decltype(s.states)());
  }
}

}  // namespace shard_layout_test
}  // namespace hawser::parallel
