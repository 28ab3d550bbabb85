// Matrix homes test: runs GATHER_MATRIX and SCATTER_MATRIX on arrays in which each element is its own number.
// On every mesh, each matrix has one home, where it arrives complete and in order, and every rank receives
// the result of each element that it holds.
#include "engine/parallel/matrix_homes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "engine/optim/optimizer.h"
#include "engine/parallel/shard_layout.h"
#include "tests/parallel/planned_rank.h"

namespace hawser::parallel {
namespace matrix_homes_test {

using mesh::Axis;

struct Case {
  mesh::Degrees degrees;
  int64_t stage = 0;
  bool by_head = false;

  std::string text() const {
    const mesh::Degrees& d = degrees;
    std::string text = "stage " + std::to_string(stage) + (by_head ? " by head" : "");
    for (const int64_t degree : {d.pp, d.dp_replicate, d.dp_shard, d.cp, d.tp, d.ep})
      text += " x " + std::to_string(degree);
    return text;
  }
};

/// Plain attention with two heads of keys and values, latent attention, and experts.
enum class Kind { kPlain, kLatent, kExperts };

nn::ModelConfig model_of(Kind kind) {
  nn::ModelConfig m = testing::odd_model(2, false);
  m.heads = 4, m.kv_heads = 2, m.width = 16, m.mlp_width = 24;
  m.mlp = nn::MlpKind::kSwiGlu;
  if (kind == Kind::kLatent) {
    m.kv_heads = 4, m.head_dim = 10;
    m.latent.kv_rank = 12, m.latent.q_rank = 14, m.latent.rope_dim = 4, m.latent.value_dim = 7;
  }
  if (kind == Kind::kExperts) {
    m.moe.experts = 8, m.moe.top_k = 2, m.moe.width = 6, m.moe.shared_width = 10;
    m.moe.layers.has = {false, true};
  }
  return m;
}

/// Muon for the matrices of blocks and for the head, whose rows do not divide evenly.
nn::TrainedParts parts_of(const Case& c) {
  optim::OptimizerConfig config;
  config.kind = optim::OptimizerKind::kMuon, config.muon_heads = c.by_head;
  optim::OptimizerRule& head = config.rules.emplace_back();
  head.of = "head.weight", head.kind = optim::OptimizerKind::kMuon;
  return optim::trained_parts(config);
}

/// The number of an element in the model; -1: padding.
using Numbers = std::vector<int64_t>;
constexpr int64_t kApart = 1 << 20;

/// All ranks of a case.
class World {
 public:
  World(Kind kind, const Case& c)
      : model_(model_of(kind)),
        table_(model_, true, parts_of(c), c.degrees.tp, c.degrees.ep),
        mesh_(c.degrees) {
    ShardLayout::Options o;
    o.mesh = mesh_, o.stage = c.stage, o.states = testing::kept_moments(1);
    for (int64_t b = 0; c.degrees.pp > 1 && b <= model_.layers + 1; ++b) o.stage_of.push_back(b < 2 ? 0 : 1);
    for (o.rank = 0; o.rank < mesh_.world_size(); ++o.rank) {
      layouts_.push_back(std::make_unique<ShardLayout>(table_, o));
      memory_.emplace_back();
      for (size_t g = 0; g < table_.groups().size(); ++g)
        memory_.back().emplace_back(layouts_.back()->group(static_cast<int32_t>(g)).state.size(), -1);
      for (size_t i = 0; i < table_.all().size(); ++i) hold(o.rank, i);
    }
  }

  void run_all() {
    for (int32_t b = 0; b <= model_.layers + 1; ++b)
      for (const bool experts : {false, true}) run(b, experts), add_bytes(b, experts);
    int64_t elements = 0;
    for (const nn::Parameter& p : table_.all())
      if (optim::takes_matrices(table_.group_of(p))) elements += p.size;
    EXPECT_EQ(static_cast<int64_t>(at_home_.size()), elements);
    for (const auto& [number, times] : at_home_) EXPECT_EQ(times, 1) << "homes of element " << number;
    check_bytes();
  }

 private:
  /// Runs both transfers of the block's matrices and checks what arrives.
  void run(int32_t block, bool experts) {
    std::vector<const BlockMatrices*> views;
    for (const auto& layout : layouts_) views.push_back(layout->matrices().of(block, experts));
    std::vector<Numbers> direction, parts, home;
    for (size_t r = 0; r < views.size(); ++r) {
      const bool here = views[r] != nullptr;
      direction.emplace_back(here ? views[r]->direction_bytes / 4 : 0, -1);
      parts.emplace_back(here ? views[r]->parts_bytes / 4 : 0, -1);
      home.emplace_back(here ? views[r]->home_bytes / 4 : 0, -1);
      if (here) begin(views[r]->parts, r, &direction[r]);
    }
    const auto gathers = [&](const BlockMatrices& m) { return m.gathers(); };
    if (any(views, gathers)) move(views, &BlockMatrices::gather, experts, direction, &parts);
    for (size_t r = 0; r < views.size(); ++r)
      if (views[r] != nullptr)
        for (const BlockMatrices::AtHome& m : views[r]->at_home) {
          const Numbers& from = views[r]->gathers() ? parts[r] : direction[r];
          Numbers& to = views[r]->scatters() ? home[r] : direction[r];
          orthogonalise(m, from, &to);
        }
    const auto scatters = [&](const BlockMatrices& m) { return m.scatters(); };
    if (any(views, scatters)) move(views, &BlockMatrices::scatter, experts, home, &direction);
    for (size_t r = 0; r < views.size(); ++r)
      if (views[r] != nullptr) end(views[r]->parts, r, direction[r]);
  }

  /// Writes the numbers of the parameter's elements to the memory of a rank.
  void hold(int64_t rank, size_t parameter) {
    const nn::Parameter& p = table_.all()[parameter];
    const ShardLayout& layout = *layouts_[static_cast<size_t>(rank)];
    if (!layout.group(p.group).here) return;
    Numbers& memory = memory_[static_cast<size_t>(rank)][static_cast<size_t>(p.group)];
    for (const mesh::ElementRun& run : layout.state_of(p, rank))
      for (int64_t e = 0; e < run.size(); ++e)
        memory[static_cast<size_t>(run.at + e)] = static_cast<int64_t>(parameter) * kApart + run.begin + e;
    if (!optim::takes_matrices(table_.group_of(p))) return;
    for (const mesh::ElementRun& run : layout.state_of(p, rank))
      for (int64_t e = run.begin; e < run.end; ++e)
        holders_[static_cast<int64_t>(parameter) * kApart + e].insert(rank);
  }

  template <typename Is>
  static bool any(const std::vector<const BlockMatrices*>& views, Is is) {
    return std::any_of(views.begin(), views.end(), [&](const BlockMatrices* m) { return m && is(*m); });
  }

  int64_t* held(size_t rank, const BlockMatrices::Part& p) {
    const GroupLayout& group = layouts_[rank]->group(p.group);
    return memory_[rank][static_cast<size_t>(p.group)].data() + p.in_group - group.state.begin;
  }

  /// MOMENTUM: each element that the rank holds is in one part.
  void begin(const std::vector<BlockMatrices::Part>& parts, size_t rank, Numbers* direction) {
    for (const BlockMatrices::Part& p : parts) {
      std::copy_n(held(rank, p), p.n, direction->begin() + p.at);
      for (int64_t i = 0; i < p.n; ++i) EXPECT_TRUE(taken_.insert({rank, held(rank, p)[i]}).second);
    }
  }

  /// OPTIMIZER_STEP finds the result of each element.
  void end(const std::vector<BlockMatrices::Part>& parts, size_t rank, const Numbers& direction) {
    for (const BlockMatrices::Part& p : parts)
      EXPECT_TRUE(std::equal(held(rank, p), held(rank, p) + p.n, direction.begin() + p.result));
  }

  /// An all_to_all of parts of different sizes.
  void move(const std::vector<const BlockMatrices*>& views, BlockMatrices::Exchange BlockMatrices::*exchange,
            bool experts, const std::vector<Numbers>& from, std::vector<Numbers>* to) {
    for (size_t r = 0; r < views.size(); ++r) {
      if (views[r] == nullptr) continue;
      const auto ranks = mesh::group(mesh_, static_cast<int64_t>(r), StateLayout::holder_axes(experts));
      ASSERT_EQ(static_cast<int64_t>(ranks.size()), views[r]->ranks);
      const size_t self = static_cast<size_t>(std::find(ranks.begin(), ranks.end(), r) - ranks.begin());
      int64_t at = 0;
      for (size_t k = 0; k < ranks.size(); ++k) {
        const auto source = static_cast<size_t>(ranks[k]);
        const std::vector<int64_t>& sent = (views[source]->*exchange).sent;
        const int64_t bytes = sent[self],
                      before = std::accumulate(sent.begin(), sent.begin() + self, int64_t{0});
        ASSERT_EQ(bytes, (views[r]->*exchange).received[k]) << k << " to " << self;
        ASSERT_LE(static_cast<size_t>(at + bytes / 4), (*to)[r].size());
        std::copy_n(from[source].begin() + before / 4, bytes / 4, (*to)[r].begin() + at);
        at += bytes / 4;
      }
    }
  }

  /// ORTHOGONALISE: consecutive elements of one weight arrive, row by row.
  void orthogonalise(const BlockMatrices::AtHome& m, const Numbers& from, Numbers* to) {
    const auto element = [&](const optim::MatrixPiece& p, int64_t i) {
      const int64_t width = p.width > 0 ? p.width : m.columns, e = p.begin + i;
      return static_cast<size_t>(p.corner + e / width * m.columns + e % width);
    };
    Numbers whole(static_cast<size_t>(m.rows * m.columns), -1);
    for (const optim::MatrixPiece& p : m.parts)
      for (int64_t i = 0; i < p.n; ++i) {
        EXPECT_EQ(whole[element(p, i)], -1) << "arrives twice";
        whole[element(p, i)] = from[static_cast<size_t>(p.at + i)];
      }
    ASSERT_GE(whole[0], 0);
    const nn::Parameter& p = table_.all()[static_cast<size_t>(whole[0] / kApart)];
    EXPECT_EQ(m.columns, p.shape.back());
    const std::vector<int64_t> rows =
        p.matrix_rows.empty() ? std::vector{p.shape[p.shape.size() - 2]} : p.matrix_rows;
    EXPECT_NE(std::find(rows.begin(), rows.end(), m.rows), rows.end()) << p.name;
    for (size_t i = 0; i < whole.size(); ++i) {
      ASSERT_EQ(whole[i], whole[0] + static_cast<int64_t>(i)) << p.name;
      ++at_home_[whole[i]];
    }
    for (const optim::MatrixPiece& piece : m.results)
      for (int64_t i = 0; i < piece.n; ++i)
        (*to)[static_cast<size_t>(piece.at + i)] = whole[element(piece, i)];
  }

  static int64_t others(const std::vector<int64_t>& bytes, size_t self) {
    return std::accumulate(bytes.begin(), bytes.end(), int64_t{0}) - bytes[self];
  }
  /// The largest bytes of a rank are those of the plan.
  void add_bytes(int32_t block, bool experts) {
    std::map<int64_t, std::array<int64_t, 2>> most, planned;  // by stage
    for (size_t r = 0; r < layouts_.size(); ++r) {
      const BlockMatrices* const m = layouts_[r]->matrices().of(block, experts);
      if (m == nullptr) continue;
      const auto rank = static_cast<int64_t>(r), stage = mesh_.coordinate(rank, Axis::kPp);
      const auto ranks = mesh::group(mesh_, rank, StateLayout::holder_axes(experts));
      const auto self = static_cast<size_t>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
      const std::array<int64_t, 2> sent = {others(m->gather.sent, self), others(m->scatter.sent, self)};
      planned[stage] = {m->gathered_bytes, m->scattered_bytes};
      for (size_t i = 0; i < 2; ++i) most[stage][i] = std::max(most[stage][i], sent[i]), bytes_[i] += sent[i];
    }
    EXPECT_EQ(most, planned) << "block " << block;
  }

  /// Each element is sent to its home once, unless the home holds it, and its result to all other holders.
  /// Every rank updates each element that it holds. Without shards, the home itself holds elements.
  void check_bytes() const {
    std::set<std::pair<int32_t, int64_t>> seen;  // parameter and index
    int64_t gathered = 0, scattered = 0, held = 0;
    for (const auto& layout : layouts_) {
      std::map<int32_t, int64_t> next;  // by parameter
      for (const Matrix& m : layout->matrices().all()) {
        const int64_t first = m.parameter * kApart + next[m.parameter];
        next[m.parameter] += m.elements();
        if (!seen.insert({m.parameter, m.index}).second) continue;
        int64_t at_home = 0;
        for (int64_t e = first; e < first + m.elements(); ++e) {
          const std::set<int64_t>& ranks = holders_.at(e);
          const bool has = ranks.contains(m.home);
          gathered += has ? 0 : 4, scattered += 4 * (static_cast<int64_t>(ranks.size()) - (has ? 1 : 0));
          held += static_cast<int64_t>(ranks.size()), at_home += has;
        }
        if (layout->options().stage == 0) {
          EXPECT_GT(at_home, 0) << m.home;
        }
      }
    }
    EXPECT_EQ(bytes_[0], gathered);
    EXPECT_EQ(bytes_[1], scattered);
    EXPECT_EQ(static_cast<int64_t>(taken_.size()), held);
  }

  const nn::ModelConfig model_;
  const nn::ParameterTable table_;
  const mesh::DeviceMesh mesh_;
  std::vector<std::unique_ptr<ShardLayout>> layouts_;
  std::vector<std::vector<Numbers>> memory_;      // by rank and group
  std::map<int64_t, std::set<int64_t>> holders_;  // by element of a matrix
  std::set<std::pair<size_t, int64_t>> taken_;    // ranks, and elements of their parts
  std::map<int64_t, int64_t> at_home_;            // how often an element was at a home
  std::array<int64_t, 2> bytes_ = {};             // sent to gather, and to scatter
};

std::vector<Case> every_case(bool experts) {
  std::vector<Case> cases;
  const std::vector<mesh::Degrees> dense = {
      {},
      {.dp_shard = 3},
      {.dp_replicate = 2, .dp_shard = 2, .cp = 2},
      {.tp = 2},
      {.tp = 4},
      {.dp_shard = 3, .tp = 2},
      {.dp_replicate = 2, .dp_shard = 2, .tp = 4},
      {.dp_replicate = 3, .tp = 4},
      {.dp_shard = 2, .cp = 2, .tp = 2},
      {.pp = 2, .dp_shard = 2, .tp = 2},
  };
  const std::vector<mesh::Degrees> sparse = {
      {.tp = 2},
      {.dp_shard = 2, .tp = 2},
      {.dp_shard = 2, .tp = 2, .ep = 2},
      {.dp_shard = 2, .tp = 2, .ep = 4},
      {.dp_replicate = 2, .dp_shard = 4, .ep = 4},
      {.dp_replicate = 2, .dp_shard = 2, .tp = 2, .ep = 2},
      {.pp = 2, .dp_shard = 2, .cp = 2, .tp = 2, .ep = 2},
  };
  for (const mesh::Degrees& degrees : experts ? sparse : dense)
    for (int64_t stage = 0; stage <= 3; ++stage)
      for (const bool by_head : {false, true}) cases.push_back({degrees, stage, by_head});
  return cases;
}

TEST(MatrixHomes, MatricesArriveWholeAndResultsReachEveryHolder) {
  for (const Kind kind : {Kind::kPlain, Kind::kLatent, Kind::kExperts})
    for (const Case& c : every_case(kind == Kind::kExperts)) {
      SCOPED_TRACE(c.text());
      World(kind, c).run_all();
      if (::testing::Test::HasFailure()) return;
    }
}

}  // namespace matrix_homes_test
}  // namespace hawser::parallel
