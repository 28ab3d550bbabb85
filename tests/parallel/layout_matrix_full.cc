// Every cell of the layout matrix, or a sample of them: dp_replicate x dp_shard x stage x accumulation x
// reduce x reshard choice x precision x optimizer x tied or separate head, 20 steps each, dropout on, unequal
// token counts, a vocabulary that nothing divides, frozen parameters. A cell must give the bits of DDP with
// its sum_group.
//
//   layout_matrix_full [--all] [--sample N] [--seed S]      default: a sample of 24 that changes from day to
//   day
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tests/harness/layout_run.h"

namespace hawser::testing {
namespace {

struct Cell {
  Problem problem;
  Layout layout;
};

std::string name_of(const Cell& c) {
  return fmt::format("{} {} {} {}, {}", c.problem.precision, c.problem.optimizer,
                     c.problem.tied ? "tied" : "separate", c.problem.frozen ? "frozen" : "all",
                     c.layout.name());
}

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

std::vector<Cell> all_cells(int64_t most_ranks) {
  std::vector<Cell> cells;
  for (const int64_t world : {1, 2, 3, 4, 6, 8})
    for (int64_t replicate = 1; replicate <= world; ++replicate) {
      if (world % replicate != 0 || world > most_ranks) continue;
      for (const int64_t accumulation : {1, 2, 3})
        for (const Layout& layout : layouts_of(replicate, world / replicate, accumulation))
          for (const char* precision : {"fp32", "bf16"})
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

/// DDP over the same ranks, summed in the same groups: what the cell must equal.
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

int run(const std::vector<Cell>& cells, int steps) {
  std::map<std::string, std::vector<StepRecord>> references;
  int failures = 0;
  for (const Cell& cell : cells) {
    const Cell ddp = reference_of(cell);
    const std::string key = name_of(ddp);
    if (references.count(key) == 0) {
      references.clear();  // cells with one reference lie next to each other
      references[key] = run_layout(ddp.problem, ddp.layout, steps);
    }
    const std::string difference =
        first_difference(references[key], run_layout(cell.problem, cell.layout, steps));
    if (difference.empty()) continue;
    ++failures;
    std::printf("DIFFERENT %s\n          %s\n", name_of(cell).c_str(), difference.c_str());
  }
  std::printf("%zu cells of %d steps, %d different\n", cells.size(), steps, failures);
  return failures == 0 ? 0 : 1;
}

int64_t day_number() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::hours>(now).count() / 24;
}

}  // namespace
}  // namespace hawser::testing

int main(int argc, char** argv) {
  using hawser::testing::Cell;
  int64_t world = 8;
  int steps = 20;
  size_t sample = 24;
  uint64_t seed = static_cast<uint64_t>(hawser::testing::day_number());
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const auto is = [&](const char* name) { return argument == name && i + 1 < argc; };
    if (argument == "--all") sample = SIZE_MAX;
    if (is("--world")) world = std::stoll(argv[++i]);
    if (is("--steps")) steps = std::stoi(argv[++i]);
    if (is("--sample")) sample = std::stoul(argv[++i]);
    if (is("--seed")) seed = std::stoull(argv[++i]);
  }
  std::vector<Cell> cells = hawser::testing::all_cells(world);
  std::printf("%zu of %zu cells, --seed %llu\n", std::min(sample, cells.size()), cells.size(),
              static_cast<unsigned long long>(seed));
  if (sample < cells.size()) {
    std::mt19937_64 random(seed);
    std::shuffle(cells.begin(), cells.end(), random);
    cells.resize(sample);
  }
  std::stable_sort(cells.begin(), cells.end(), [](const Cell& a, const Cell& b) {
    return hawser::testing::name_of(hawser::testing::reference_of(a)) <
           hawser::testing::name_of(hawser::testing::reference_of(b));
  });
  return hawser::testing::run(cells, steps);
}
