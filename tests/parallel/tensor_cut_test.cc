// Tensor cut test: compares how tensor-parallel ranks divide parameters, at every ZeRO stage and with ranks
// that divide columns, with the papers' definition, element by element.
#include <gtest/gtest.h>

#include <memory>

#include "tests/parallel/planned_rank.h"

namespace hawser::parallel {
namespace tensor_cut_test {

using mesh::Axis;

/// Returns a model with two key/value heads, every optional parameter and a vocabulary of 37.
nn::ModelConfig whole_model() {
  nn::ModelConfig m = testing::odd_model(1, false);
  m.heads = 4, m.kv_heads = 2, m.width = 16, m.mlp_width = 24;
  m.mlp = nn::MlpKind::kSwiGlu;
  m.qk_norm = m.post_norm = true;
  m.bias = {.q = true, .k = true, .v = true, .o = true, .gate = true, .up = true, .down = true, .norm = true};
  return m;
}

struct Case {
  int64_t tp = 1, replicas = 1, shards = 1, stage = 0, cp = 1;

  mesh::DeviceMesh mesh() const {
    mesh::Degrees degrees;
    degrees.dp_replicate = replicas, degrees.dp_shard = shards;
    degrees.cp = cp, degrees.tp = tp;
    return mesh::DeviceMesh(degrees);
  }
  std::string text() const {
    return "tp " + std::to_string(tp) + ", " + std::to_string(replicas) + " x " + std::to_string(shards) +
           ", cp " + std::to_string(cp) + ", stage " + std::to_string(stage);
  }
};

std::vector<Case> every_case() {
  std::vector<Case> cases;
  for (const int64_t tp : {1, 2, 4})
    for (const int64_t replicas : {1, 2})
      for (const int64_t shards : {1, 2, 3})
        for (const int64_t cp : {1, 2})
          for (int64_t stage = 0; stage <= 3; ++stage) cases.push_back({tp, replicas, shards, stage, cp});
  return cases;
}

bool has(const std::string& name, const char* part) { return name.find(part) != std::string::npos; }

/// The divided dim and the size of a piece, by the parameter's name; dim -1: not divided.
struct Division {
  int64_t dim = -1, piece = 1;
  bool of_kv_heads = false;
};
Division division_of(const std::string& name, const nn::ModelConfig& m) {
  if (has(name, "norm") || has(name, "positions") || has(name, "o.bias") || has(name, "down.bias")) return {};
  if (has(name, ".q.")) return {0, m.head_dim};
  if (has(name, ".k.") || has(name, ".v.")) return {0, m.head_dim, true};
  if (has(name, ".o.")) return {1, m.head_dim};
  if (has(name, ".down.")) return {1, 1};
  return {0, 1};  // gate, up, embedding, head
}

/// Returns the position of element i of a parameter in the group of tensor-parallel rank r; -1 if the rank
/// does not hold it.
int64_t place_of(const nn::Parameter& p, const nn::ModelConfig& m, int64_t i, int64_t r, int64_t tp) {
  const Division d = division_of(p.name, m);
  if (d.dim < 0) return p.offset + i;
  const int64_t cols = p.shape.size() == 2 ? p.shape[1] : 1, row = i / cols, col = i % cols;
  const int64_t along = d.dim == 0 ? row : col;
  const int64_t pieces = p.shape[static_cast<size_t>(d.dim)] / d.piece;
  const int64_t ranks_a_piece = d.of_kv_heads ? std::max<int64_t>(1, tp / m.kv_heads) : 1;
  const int64_t shares = tp / ranks_a_piece, pieces_a_share = (pieces + shares - 1) / shares;
  const int64_t first = r / ranks_a_piece * pieces_a_share * d.piece, room = pieces_a_share * d.piece;
  if (along < first || along >= first + room) return -1;
  return p.offset + (d.dim == 0 ? (row - first) * cols + col : row * room + col - first);
}

std::vector<std::unique_ptr<ShardLayout>> layouts_of(const nn::ParameterTable& table, const Case& c) {
  std::vector<std::unique_ptr<ShardLayout>> all;
  const mesh::DeviceMesh mesh = c.mesh();
  for (int64_t rank = 0; rank < mesh.world_size(); ++rank) {
    ShardLayout::Options o;
    o.mesh = mesh, o.rank = rank, o.stage = c.stage;
    all.push_back(std::make_unique<ShardLayout>(table, o));
  }
  return all;
}

TEST(TensorCut, RanksKeepTheirElementsAtTheirPlacesAndWriteEachOnce) {
  const nn::ModelConfig m = whole_model();
  for (const Case& c : every_case()) {
    SCOPED_TRACE(c.text());
    const nn::ParameterTable table(m, true, {}, c.tp);
    const auto ranks = layouts_of(table, c);
    for (size_t i = 0; i < table.all().size(); ++i) {
      const nn::Parameter& p = table.all()[i];
      std::vector<int64_t> counted(static_cast<size_t>(p.size)), written(static_cast<size_t>(p.size));
      int64_t keepers = 0;
      for (const auto& rank : ranks) {
        const int64_t number = rank->options().rank, tp_rank = c.mesh().coordinate(number, Axis::kTp);
        const GroupLayout& group = rank->group(p.group);
        std::vector<int64_t> at(static_cast<size_t>(p.size), -1);
        for (const mesh::ElementRun& run : rank->state_of(p, number))
          for (int64_t e = run.begin; e < run.end; ++e) at[static_cast<size_t>(e)] = run.at + e - run.begin;
        for (int64_t e = 0; e < p.size; ++e) {
          const int64_t place = place_of(p, m, e, tp_rank, c.tp);
          const bool kept = place >= group.state.begin && place < group.state.end;
          keepers += kept;
          ASSERT_EQ(at[static_cast<size_t>(e)], kept ? place - group.state.begin : -1)
              << p.name << ", element " << e << " on rank " << number;
          counted[static_cast<size_t>(e)] += kept && group.owns_state();
        }
        for (const mesh::ElementRun& run : rank->to_write(p, i))
          for (int64_t e = run.begin; e < run.end; ++e) {
            ++written[static_cast<size_t>(e)];
            EXPECT_EQ(at[static_cast<size_t>(e)], run.at + e - run.begin) << "it writes what it has";
          }
      }
      const int64_t copies = c.replicas * (c.stage == 0 ? c.shards * c.cp : 1) * c.tp / p.cut.shares(c.tp, 1);
      EXPECT_EQ(keepers, copies * p.size) << p.name << ": state is sharded over dp_shard and cp";
      EXPECT_EQ(counted, std::vector<int64_t>(counted.size(), 1)) << p.name << " in the norm";
      EXPECT_EQ(written, std::vector<int64_t>(written.size(), 1)) << p.name << " in a checkpoint";
    }
  }
}

/// A rank computes like a smaller model: its offsets are those of that model's table.
TEST(TensorCut, ARanksShapesAreThoseOfAModelWithItsShareOfHeadsAndFeatures) {
  nn::ModelConfig whole = whole_model(), share = whole;
  whole.vocab_size = 38;
  share.heads = 2, share.kv_heads = 1, share.mlp_width = 12, share.vocab_size = 19;
  const nn::ParameterTable cut(whole, true, {}, 2), small(share);
  ASSERT_EQ(cut.all().size(), small.all().size());
  for (size_t i = 0; i < cut.all().size(); ++i) {
    EXPECT_EQ(cut.all()[i].name, small.all()[i].name);
    EXPECT_EQ(cut.all()[i].local_shape, small.all()[i].shape);
    EXPECT_EQ(cut.all()[i].room, small.all()[i].size);
  }
  const nn::ParameterTable alone(whole);
  for (size_t i = 0; i < cut.all().size(); ++i) EXPECT_EQ(cut.all()[i].shape, alone.all()[i].shape);
  for (const nn::Parameter& p : alone.all()) EXPECT_EQ(p.local_shape, p.shape);
}

TEST(TensorCut, WordsThatDoNotDivideArePadded) {
  const nn::ParameterTable table(whole_model(), true, {}, 4);
  EXPECT_EQ(table.at("head.weight").shape, (std::vector<int64_t>{37, 16}));
  EXPECT_EQ(table.at("head.weight").local_shape, (std::vector<int64_t>{10, 16}));
}

TEST(TensorCut, GroupsAreAlikeInWhatRanksShareAndSum) {
  const nn::ParameterTable table(whole_model(), true, {}, 4);
  for (const nn::Parameter& p : table.all()) {
    const nn::ParameterGroup& group = table.group_of(p);
    EXPECT_EQ(p.cut.shares(4, 1), group.shares) << p.name;
    EXPECT_EQ(p.covers, group.covers) << p.name;
  }
}

TEST(TensorCut, SumsOverModelAxesAreThoseThatThePapersName) {
  for (const int64_t tp : {1, 2, 4}) {
    for (const bool sequence_parallel : {false, true}) {
      SCOPED_TRACE("tp " + std::to_string(tp) + (sequence_parallel ? " with sequence parallelism" : ""));
      const Case c{tp, 1, 2, 2};
      const nn::ParameterTable table(whole_model(), true, {}, tp);
      const StateLayout layout(c.mesh(), c.stage, 0);
      for (const nn::Parameter& p : table.all()) {
        const GroupedTensor t = in_group(p, table.group_of(p).elements, c.mesh(), sequence_parallel);
        std::vector<mesh::SubAxis> expected;
        const bool own_heads = has(p.name, "q_norm") || has(p.name, "k_norm");
        const bool of_rows = has(p.name, "blocks.") && has(p.name, "norm") && !own_heads;
        const bool key_or_value = has(p.name, ".k.") || has(p.name, ".v.");
        if (tp > 1 && (own_heads || (of_rows && sequence_parallel))) expected = {Axis::kTp};
        if (tp == 4 && key_or_value) expected = {inner_half(Axis::kTp, 2)};
        EXPECT_EQ(layout.model_sum(t), expected) << p.name;
      }
    }
  }
}

}  // namespace tensor_cut_test
}  // namespace hawser::parallel
