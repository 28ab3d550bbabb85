// The cells of the layout matrix: dp_replicate x dp_shard x stage x accumulation x reduce x reshard choice x
// precision x optimizer x tied or separate head, a third of them with frozen parameters. And of the model
// axes: tp and cp, alone and together, x data-parallel mesh x stage x precision x two models.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/harness/layout_run.h"

namespace hawser::testing {

struct Cell {
  Problem problem;
  Layout layout;
};

std::string name_of(const Cell& cell);
/// All cells of worlds of 1, 2, 3, 4, 6 and 8 ranks, at most `most_ranks`.
std::vector<Cell> all_cells(int64_t most_ranks);
/// Cells with tensor- or context-parallel ranks, at most `most_ranks`.
std::vector<Cell> model_axes_cells(int64_t most_ranks);
/// DDP over the same ranks, summed in the same groups: the result the cell must equal.
Cell reference_of(const Cell& cell);

/// `count` of the cells, chosen by the seed, those of one reference next to each other.
std::vector<Cell> sample_of(std::vector<Cell> cells, size_t count, uint64_t seed);
/// A seed that changes from day to day.
uint64_t seed_of_today();

}  // namespace hawser::testing
