#include "tests/harness/layout_cells.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <random>

namespace hawser::testing {
namespace {

/// Returns the layouts of one mesh with one number of accumulation steps.
std::vector<Layout> layouts_of(int64_t replicate, int64_t shard, int64_t accumulation) {
  std::vector<Layout> all;
  for (const char* reduce : {"per_step", "per_micro_batch"}) {
    if (accumulation == 1 && std::string(reduce) == "per_micro_batch") continue;  // equal to per_step
    Layout l;
    l.dp_replicate = replicate, l.dp_shard = shard, l.accumulation = accumulation, l.reduce = reduce;
    all.push_back(l);
    for (l.stage = 1; shard > 1 && l.stage < 3; ++l.stage) all.push_back(l);
    if (shard == 1) continue;
    for (const char* reshard : {"full", "keep"}) {
      l.reshard = reshard;
      l.prefetch = all.size() % 3;
      all.push_back(l);
    }
    l.reshard = "group";
    for (l.reshard_group = 2; l.reshard_group < shard; ++l.reshard_group)
      if (shard % l.reshard_group == 0) all.push_back(l);
  }
  return all;
}

}  // namespace

std::string name_of(const Cell& c) {
  const Problem& p = c.problem;
  return fmt::format("{}{} {}{} {} {}{}{}{}{}{}{}{}{}{} heads {}, {}", p.precision, p.fp8, p.optimizer,
                     p.muon_heads ? " by head" : "", p.tied ? "tied" : "separate",
                     p.frozen ? "frozen" : "all",
                     p.like_gpt2      ? ""
                     : p.rope_dim > 0 ? " gemma, part"
                                      : " gemma",
                     p.documents ? " documents" : "", p.rules.empty() ? "" : " rules",
                     p.average >= 0 ? " average" : "", p.qk_clip > 0 ? " qk_clip" : "",
                     p.teacher.empty() ? "" : " teacher ", p.teacher, p.sinks ? " sinks" : "",
                     p.ahead > 0 ? fmt::format(" ahead {}", p.ahead) : "", p.heads, c.layout.name());
}

/// A limit that some heads of initial weights exceed.
constexpr double kLowScores = 0.01;

/// Depths ahead are not supported together with these.
bool may_look_ahead(const Problem& p) { return p.teacher.empty() && p.qk_clip == 0; }

constexpr const char* kTeachers[] = {R"({"top": 5, "weight": 0.5, "temperature": 2})", R"({"top": 3})"};

/// Settings of precision fp8. Tensor-parallel ranks would have parts of blocks, so they need the first.
constexpr const char* kFp8[] = {R"({"history": 2})", R"({"recipe": "blocks"})", R"({"recipe": "current"})"};

/// Each block has tensors of several optimizers, rates and decays.
constexpr const char* kMixedRules =
    R"([{"of": "*.bias", "kind": "lion", "decay": 0.2}, {"of": "blocks.?.mlp.down.*", "kind": "sgd"},
        {"of": "blocks.1.attention.*", "kind": "lion", "rate": 0.5}, {"of": "embedding.*", "rate": 2}])";

std::vector<Cell> all_cells(int64_t most_ranks) {
  std::vector<Cell> cells;
  for (const int64_t world : {1, 2, 3, 4, 6, 8})
    for (int64_t replicate = 1; replicate <= world; ++replicate) {
      if (world % replicate != 0 || world > most_ranks) continue;
      for (const int64_t accumulation : {1, 2, 3})
        for (const Layout& layout : layouts_of(replicate, world / replicate, accumulation))
          for (const char* precision : {"fp32", "bf16", "bf16_pure", "fp16", "fp8"})
            for (const std::string optimizer : {"adamw", "sgd", "muon", "adamw8"})
              for (const bool tied : {true, false}) {
                const bool f32 = optimizer == "muon" || optimizer == "adamw8";
                if (f32 && std::string(precision) == "bf16_pure") continue;
                Cell cell;
                cell.problem.precision = precision, cell.problem.optimizer = optimizer,
                cell.problem.tied = tied;
                cell.problem.muon_heads = optimizer == "muon" && cells.size() % 5 < 2;
                cell.problem.frozen = cells.size() % 3 == 0;
                if (cells.size() % 7 == 0) cell.problem.rules = kMixedRules;
                if (cell.problem.precision == "fp8") cell.problem.fp8 = kFp8[cells.size() % 3];
                if (cells.size() % 3 == 1 && std::string(precision) != "bf16_pure")
                  cell.problem.qk_clip = kLowScores;
                cell.problem.sinks = cells.size() % 4 == 3;
                if (cells.size() % 5 == 2) cell.problem.teacher = kTeachers[cells.size() % 2];
                if (cells.size() % 11 < 3 && may_look_ahead(cell.problem))
                  cell.problem.ahead = 1 + static_cast<int64_t>(cells.size() % 2);
                cell.layout = layout;
                cells.push_back(cell);
              }
    }
  return cells;
}

namespace {

/// How ranks divide blocks and columns. The model's heads are divided by tp, or several ranks share one.
struct ModelAxes {
  int64_t tp, cp;
  const char* mode = "ring";
  int64_t heads = 4, kv_heads = 2;
  bool sequence_parallel = true;
};

constexpr ModelAxes kModelAxes[] = {
    {2, 1},
    {2, 1, "ring", 4, 2, false},
    {3, 1, "ring", 6, 3},
    {4, 1},
    {8, 1, "ring", 8, 2},
    {1, 2},
    {1, 2, "ulysses"},
    {1, 2, "gather"},
    {1, 3, "ring", 6, 3},
    {1, 4},
    {2, 2},
    {2, 2, "ulysses", 8, 4},
    {2, 2, "gather", 4, 2, false},
};

void add_cells(const ModelAxes& axes, Layout layout, std::vector<Cell>* cells) {
  layout.tp = axes.tp, layout.cp = axes.cp, layout.cp_mode = axes.mode;
  layout.sequence_parallel = axes.sequence_parallel;
  for (const char* precision : {"fp32", "bf16", "bf16_pure", "fp16", "fp8"})
    for (const bool like_gpt2 : {true, false}) {
      Cell cell;
      Problem& p = cell.problem;
      p.precision = precision, p.like_gpt2 = like_gpt2;
      if (!like_gpt2 && cells->size() % 4 == 1) p.rope_dim = 4;
      if (p.precision == "fp8") p.fp8 = kFp8[axes.tp == 1 ? cells->size() % 2 : 0];
      p.heads = axes.heads, p.kv_heads = axes.kv_heads, p.mlp_width = axes.tp == 3 ? 36 : 40;
      const size_t kind = (cells->size() / 10 + cells->size()) % 3;
      p.optimizer = kind == 0 ? "adamw" : kind == 1 || p.precision == "bf16_pure" ? "sgd" : "muon";
      p.muon_heads = p.optimizer == "muon" && cells->size() % 7 < 3;
      p.tied = cells->size() % 5 < 3, p.frozen = cells->size() % 3 == 0;
      p.documents = cells->size() % 4 < 2;
      if (p.precision != "bf16_pure" && cells->size() % 3 == 1) p.average = 0.75;
      if (p.precision != "bf16_pure" && like_gpt2 && cells->size() % 4 == 2) p.qk_clip = kLowScores;
      p.sinks = cells->size() % 5 < 2;
      if (cells->size() % 5 == 3) p.teacher = kTeachers[cells->size() % 2];
      if (cells->size() % 7 < 3 && may_look_ahead(p)) p.ahead = 1 + static_cast<int64_t>(cells->size() % 2);
      cell.layout = layout;
      if (axes.tp > 1 && cells->size() % 3 != 0) cell.layout.tp_chunks = 1 + cells->size() % 4;
      cells->push_back(cell);
    }
}

}  // namespace

std::vector<Cell> model_axes_cells(int64_t most_ranks) {
  std::vector<Cell> cells;
  for (const ModelAxes& axes : kModelAxes)
    for (const auto& [replicate, shard] : {std::pair<int64_t, int64_t>{1, 1}, {1, 2}, {1, 3}, {2, 1}, {2, 2}})
      for (const char* reduce : {"per_step", "per_micro_batch"})
        for (const int64_t stage : {0, 1, 2, 3}) {
          const int64_t data = replicate * shard;
          if (data * axes.tp * axes.cp > most_ranks || (stage > 0 && shard * axes.cp == 1)) continue;
          if (stage == 0 && (data == 1 || replicate == 1)) continue;  // this is the reference itself
          Layout layout;
          layout.dp_replicate = replicate, layout.dp_shard = shard, layout.stage = stage;
          layout.accumulation = 2, layout.reduce = reduce;
          if (stage > 0 && stage < 3) layout.bucket_bytes = 4096;
          add_cells(axes, layout, &cells);
        }
  return cells;
}

Cell reference_of(const Cell& cell) {
  Cell ddp = cell;
  ddp.layout = Layout();
  ddp.layout.dp_shard = cell.layout.dp();
  ddp.layout.accumulation = cell.layout.accumulation;
  ddp.layout.reduce = cell.layout.reduce;
  ddp.layout.tp = cell.layout.tp, ddp.layout.sequence_parallel = cell.layout.sequence_parallel;
  ddp.layout.cp = cell.layout.cp, ddp.layout.cp_mode = cell.layout.cp_mode;
  const int64_t copy = cell.layout.dp_shard * cell.layout.cp;  // ranks that share one copy
  ddp.layout.sum_group = cell.layout.dp_replicate > 1 && copy > 1 ? copy : cell.layout.dp() * cell.layout.cp;
  return ddp;
}

std::vector<Cell> sample_of(std::vector<Cell> cells, size_t count, uint64_t seed) {
  if (count < cells.size()) {
    std::mt19937_64 random(seed);
    std::shuffle(cells.begin(), cells.end(), random);
    cells.resize(count);
  }
  std::stable_sort(cells.begin(), cells.end(), [](const Cell& a, const Cell& b) {
    return name_of(reference_of(a)) < name_of(reference_of(b));
  });
  return cells;
}

uint64_t seed_of_today() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::hours>(now).count() / 24);
}

}  // namespace hawser::testing
