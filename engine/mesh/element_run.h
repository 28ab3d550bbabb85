// ElementRun: elements of a tensor that follow each other both in the tensor and in a rank's memory. What
// walks over a rank's elements (initial values, loads, copies) goes from run to run.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/mesh/placed_tensor.h"

namespace hawser::mesh {

/// Elements [begin, end) of a tensor, numbered row by row. The first is element `at` of the rank's memory
/// (the memory that Block::offset refers to).
struct ElementRun {
  int64_t begin = 0, end = 0;
  int64_t at = 0;

  int64_t size() const { return end - begin; }
  bool operator==(const ElementRun&) const = default;
};

/// The elements that a rank holds, in as few runs as possible, ascending. A flat shard is one run; a cut of
/// columns has one for each row. Empty if the rank holds only padding.
std::vector<ElementRun> element_runs(const PlacedTensor& tensor, int64_t rank);

/// `rows` runs of equal size, each one row of a matrix further than the one before it, that follow each other
/// in memory.
struct ElementRows {
  ElementRun first;
  int64_t rows = 1;

  bool operator==(const ElementRows&) const = default;
};

/// The runs of a matrix with so many columns, those of a cut of columns taken together: of a flat shard of
/// it, at most three are left (the rest of a row, whole rows, the beginning of a row). 1 column: each run
/// stays alone.
std::vector<ElementRows> joined_rows(const std::vector<ElementRun>& runs, int64_t columns);

}  // namespace hawser::mesh
