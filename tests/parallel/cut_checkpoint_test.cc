// Cut checkpoint test: checkpoints of ranks that hold parts of tensors have few pieces on every mesh,
// and any mesh reads what any other wrote.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engine/checkpoint/reader.h"
#include "engine/checkpoint/sharded_save.h"
#include "tests/checkpoint/scratch.h"
#include "tests/parallel/planned_rank.h"

namespace hawser::parallel {
namespace cut_checkpoint_test {

struct Case {
  int64_t tp = 1, replicas = 1, shards = 1, cp = 1, stage = 0;

  std::string text() const {
    return "tp " + std::to_string(tp) + ", " + std::to_string(replicas) + " x " + std::to_string(shards) +
           ", cp " + std::to_string(cp) + ", stage " + std::to_string(stage);
  }
};

nn::ModelConfig model() {
  nn::ModelConfig m = testing::odd_model(2, false);
  m.heads = 4, m.kv_heads = 2, m.width = 16, m.mlp_width = 24;
  m.qk_norm = true;
  m.bias = {.q = true, .k = true, .v = true, .o = true, .gate = true, .up = true, .down = true, .norm = true};
  return m;
}

/// Returns a value that differs for each element of the model.
float value(size_t parameter, int64_t element) {
  return static_cast<float>(parameter) * 4096.0f + static_cast<float>(element);
}

/// The elements that one rank keeps of each parameter, as laid out in its memory.
class Held {
 public:
  Held(const nn::ParameterTable& table, const Case& c, int64_t rank)
      : table_(table), layout_(table, options(c, rank)) {
    for (size_t g = 0; g < table.groups().size(); ++g)
      memory_.emplace_back(static_cast<size_t>(layout_.group(static_cast<int32_t>(g)).state.size()));
  }
  static mesh::DeviceMesh mesh_of(const Case& c) {
    mesh::Degrees degrees;
    degrees.dp_replicate = c.replicas, degrees.dp_shard = c.shards, degrees.cp = c.cp, degrees.tp = c.tp;
    return mesh::DeviceMesh(degrees);
  }
  static ShardLayout::Options options(const Case& c, int64_t rank) {
    ShardLayout::Options o;
    o.mesh = mesh_of(c), o.rank = rank, o.stage = c.stage;
    return o;
  }

  void fill() {
    each([](float* at, size_t i, const mesh::ElementRun& run) {
      for (int64_t e = run.begin; e < run.end; ++e) *at++ = value(i, e);
    });
  }
  void read(const checkpoint::Reader& reader) {
    each([&](float* at, size_t i, const mesh::ElementRun& run) {
      reader.read_range(table_.all()[i].name, run.begin, run.end, at, 4 * run.size());
    });
  }
  bool holds_what(const Held& other) const { return memory_ == other.memory_; }

  std::vector<checkpoint::PieceView> pieces() {
    std::vector<checkpoint::PieceView> pieces;
    for (size_t i = 0; i < table_.all().size(); ++i) {
      const nn::Parameter& p = table_.all()[i];
      const auto joined = mesh::joined_rows(layout_.to_write(p, i), p.shape.size() == 2 ? p.shape[1] : 1);
      EXPECT_LE(joined.size(), 3u) << p.name;
      for (const auto& [run, rows] : joined)
        pieces.push_back({p.name, DType::kF32, p.shape, run.begin, run.end, at(p, run), rows});
    }
    return pieces;
  }

 private:
  float* at(const nn::Parameter& p, const mesh::ElementRun& run) {
    return memory_[static_cast<size_t>(p.group)].data() + run.at;
  }
  template <typename Fn>
  void each(Fn fn) {
    for (size_t i = 0; i < table_.all().size(); ++i)
      for (const mesh::ElementRun& run : layout_.state_of(table_.all()[i], layout_.options().rank))
        fn(at(table_.all()[i], run), i, run);
  }

  const nn::ParameterTable& table_;
  ShardLayout layout_;
  std::vector<std::vector<float>> memory_;  // indexed by group
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const int64_t tp : {1, 2, 4})
    for (const auto& [replicas, shards, cp] :
         {std::tuple{1, 1, 1}, {2, 1, 1}, {1, 2, 1}, {1, 3, 1}, {2, 2, 1}, {1, 2, 2}})
      for (int64_t stage = 0; stage <= (shards * cp > 1 ? 3 : 0); ++stage)
        all.push_back({tp, replicas, shards, cp, stage});
  return all;
}

void save(const std::string& path, const Case& c) {
  const nn::ParameterTable table(model(), true, {}, c.tp);
  const auto world = static_cast<int>(Held::mesh_of(c).world_size());
  checkpoint::ShardedSave save(path);
  std::vector<std::string> indexes;
  for (int rank = 0; rank < world; ++rank) {
    Held held(table, c, rank);
    held.fill();
    indexes.push_back(checkpoint::write_shard(save.folder(), rank, world, held.pieces(), int64_t{1} << 30));
  }
  save.finish(indexes, {});
}

TEST(CutCheckpoint, AnyMeshReadsWhatAnyOtherWrote) {
  const checkpoint::Scratch scratch;
  const std::vector<Case> all = cases();
  for (size_t from = 0; from < all.size(); ++from) {
    SCOPED_TRACE("saved by " + all[from].text());
    const std::string path = scratch / ("x" + std::to_string(from));
    save(path, all[from]);
    const auto reader = checkpoint::Reader::open(path);
    reader->verify();
    for (size_t to = from % 5; to < all.size(); to += 5) {  // a fifth of the pairs, every mesh on both sides
      SCOPED_TRACE("read by " + all[to].text());
      const nn::ParameterTable table(model(), true, {}, all[to].tp);
      for (int64_t rank = 0; rank < Held::mesh_of(all[to]).world_size(); ++rank) {
        Held expected(table, all[to], rank), got(table, all[to], rank);
        expected.fill();
        got.read(*reader);
        EXPECT_TRUE(got.holds_what(expected)) << "rank " << rank;
      }
    }
  }
}

TEST(CutCheckpoint, ACutOfColumnsIsOneRectangleARank) {
  const checkpoint::Scratch scratch;
  save(scratch / "x", {.tp = 4});
  const auto info = nlohmann::json::parse(checkpoint::inspect(scratch / "x"));
  for (const auto& tensor : info["tensors"]) {
    const auto name = tensor["name"].get<std::string>();
    if (!name.ends_with("o.weight") && !name.ends_with("down.weight")) continue;
    ASSERT_EQ(tensor["pieces"].size(), 4u) << name;
    for (size_t r = 0; r < 4; ++r) {
      const auto columns = tensor["shape"][1].get<size_t>() / 4;
      EXPECT_EQ(tensor["pieces"][r]["begin"], (nlohmann::json{0, r * columns}));
      EXPECT_EQ(tensor["pieces"][r]["end"], (nlohmann::json{tensor["shape"][0], (r + 1) * columns}));
    }
  }
}

}  // namespace cut_checkpoint_test
}  // namespace hawser::parallel
