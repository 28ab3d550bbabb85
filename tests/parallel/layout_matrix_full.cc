// layout_matrix_full: trains every cell of the layout matrix, or a sample of them: dp_replicate x dp_shard x
// stage x accumulation x reduce x reshard choice x precision x optimizer x tied or separate head. Each cell
// trains 20 steps with dropout, unequal token counts, a vocabulary that nothing divides, and frozen
// parameters, and must give the bits of DDP with its sum_group.
//
//   layout_matrix_full [--model-axes] [--all] [--sample N] [--seed S] [--world N] [--steps N] [--one-core]
//
// Default: a sample of 24 that changes from day to day. --model-axes: cells with tensor- and context-parallel
// ranks; each must give the bits of DDP at the same tp and cp. --world: cells of at most N ranks. --one-core:
// all ranks share one core. Ranks of so small a model mostly wait for each other, and waking a thread of the
// same core costs less, so the cells take a quarter less processor time than on all cores.
#include <sched.h>

#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "tests/harness/layout_cells.h"

namespace hawser::testing {
namespace {

int run(const std::vector<Cell>& cells, int steps) {
  std::map<std::string, std::vector<StepRecord>> references;
  int failures = 0;
  for (const Cell& cell : cells) {
    const Cell ddp = reference_of(cell);
    const std::string key = name_of(ddp);
    if (references.count(key) == 0) {
      references.clear();  // cells with the same reference are adjacent
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

/// Binds this thread, and those that it starts, to the core on which it runs.
void stay_on_this_core() {
  cpu_set_t core;
  CPU_ZERO(&core);
  CPU_SET(sched_getcpu(), &core);
  sched_setaffinity(0, sizeof core, &core);
}

}  // namespace
}  // namespace hawser::testing

int main(int argc, char** argv) {
  using namespace hawser::testing;
  int64_t world = 8;
  int steps = 20;
  size_t sample = 24;
  uint64_t seed = seed_of_today();
  bool model_axes = false;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const auto is = [&](const char* name) { return argument == name && i + 1 < argc; };
    if (argument == "--all") sample = SIZE_MAX;
    if (argument == "--model-axes") model_axes = true;
    if (argument == "--one-core") stay_on_this_core();
    if (is("--world")) world = std::stoll(argv[++i]);
    if (is("--steps")) steps = std::stoi(argv[++i]);
    if (is("--sample")) sample = std::stoul(argv[++i]);
    if (is("--seed")) seed = std::stoull(argv[++i]);
  }
  const std::vector<Cell> all = model_axes ? model_axes_cells(world) : all_cells(world),
                          cells = sample_of(all, sample, seed);
  std::printf("%zu of %zu cells, --seed %llu\n", cells.size(), all.size(),
              static_cast<unsigned long long>(seed));
  return run(cells, steps);
}
