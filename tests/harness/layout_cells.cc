#include "tests/harness/layout_cells.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <random>

namespace hawser::testing {
namespace {

/// Layouts of one mesh at one accumulation.
std::vector<Layout> layouts_of(int64_t replicate, int64_t shard, int64_t accumulation) {
  std::vector<Layout> all;
  for (const char* reduce : {"per_step", "per_micro_batch"}) {
    if (accumulation == 1 && std::string(reduce) == "per_micro_batch") continue;  // the same as per_step
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
  return fmt::format("{} {} {} {}, {}", c.problem.precision, c.problem.optimizer,
                     c.problem.tied ? "tied" : "separate", c.problem.frozen ? "frozen" : "all",
                     c.layout.name());
}

std::vector<Cell> all_cells(int64_t most_ranks) {
  std::vector<Cell> cells;
  for (const int64_t world : {1, 2, 3, 4, 6, 8})
    for (int64_t replicate = 1; replicate <= world; ++replicate) {
      if (world % replicate != 0 || world > most_ranks) continue;
      for (const int64_t accumulation : {1, 2, 3})
        for (const Layout& layout : layouts_of(replicate, world / replicate, accumulation))
          for (const char* precision : {"fp32", "bf16", "bf16_pure"})
            for (const char* optimizer : {"adamw", "sgd"})
              for (const bool tied : {true, false}) {
                Cell cell;
                cell.problem.precision = precision, cell.problem.optimizer = optimizer,
                cell.problem.tied = tied;
                cell.problem.frozen = cells.size() % 3 == 0;
                cell.layout = layout;
                cells.push_back(cell);
              }
    }
  return cells;
}

Cell reference_of(const Cell& cell) {
  Cell ddp = cell;
  ddp.layout = Layout();
  ddp.layout.dp_shard = cell.layout.dp();
  ddp.layout.accumulation = cell.layout.accumulation;
  ddp.layout.reduce = cell.layout.reduce;
  const bool hybrid = cell.layout.dp_replicate > 1 && cell.layout.dp_shard > 1;
  ddp.layout.sum_group = hybrid ? cell.layout.dp_shard : cell.layout.dp();
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
