// ElementRun: a range of elements that are consecutive both in the tensor and in a rank's memory. Code that
// visits a rank's elements (initial values, loads, copies) works run by run.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/mesh/placed_tensor.h"

namespace hawser::mesh {

/// Elements [begin, end) of a tensor in row-major order. The first of them is element `at` of the rank's
/// memory (the memory that Block::offset refers to).
struct ElementRun {
  int64_t begin = 0, end = 0;
  int64_t at = 0;

  int64_t size() const { return end - begin; }
  bool operator==(const ElementRun&) const = default;
};

/// The elements that a rank holds, in as few runs as possible, ascending. A flat shard is one run; a column
/// shard has one for each row. Empty if the rank holds only padding.
std::vector<ElementRun> element_runs(const PlacedTensor& tensor, int64_t rank);

/// `rows` runs of equal size, consecutive in memory; each lies one row of a matrix further than the previous
/// one.
struct ElementRows {
  ElementRun first;
  int64_t rows = 1;

  bool operator==(const ElementRows&) const = default;
};

/// Joins the runs of a matrix with `columns` columns: consecutive rows of a column shard become one
/// ElementRows. A flat shard of it becomes at most three (the rest of a row, complete rows, the beginning of
/// a row). With columns = 1 nothing is joined.
std::vector<ElementRows> joined_rows(const std::vector<ElementRun>& runs, int64_t columns);

}  // namespace hawser::mesh
