// The cells of the layout matrix: dp_replicate x dp_shard x stage x accumulation x reduce x reshard choice x
// precision x optimizer x tied or separate head, a third of them with frozen parameters; and those of the
// model axes: tp and cp, alone and together, x data-parallel mesh x stage x precision x two models.
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

/// Returns a name that differs for cells that differ.
std::string name_of(const Cell& cell);
/// Returns all cells of worlds of 1, 2, 3, 4, 6 and 8 ranks, but at most `most_ranks`.
std::vector<Cell> all_cells(int64_t most_ranks);
/// Returns the cells with tensor- or context-parallel ranks, at most `most_ranks` ranks.
std::vector<Cell> model_axes_cells(int64_t most_ranks);
/// Returns the cell with DDP over the same ranks, summed in the same groups: its result must equal the
/// cell's.
Cell reference_of(const Cell& cell);

/// Returns `count` of the cells, chosen by the seed; cells with the same reference are adjacent.
std::vector<Cell> sample_of(std::vector<Cell> cells, size_t count, uint64_t seed);
/// Returns a seed that changes every day.
uint64_t seed_of_today();

}  // namespace hawser::testing
