// LengthGroups: the order of an epoch in which rows of similar length are neighbours, for prepared rows that
// hold one document each. The rows of a micro-batch are then nearly as long as its longest, beyond which
// nothing needs to be computed. Like any order of training samples, it is a pure function of the seed and the
// sample number, so every rank and a resumed run find the same rows.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/data/token_source.h"

namespace hawser::data {

class LengthGroups {
 public:
  /// Reads the lengths of the rows of tokens [begin, begin + samples * source.row_length()). `together`: rows
  /// of a unit that stay neighbours (2 for pairs); `group`: units of a group, those of a global batch.
  LengthGroups(const TokenSource& source, int64_t begin, int64_t samples, int64_t together, int64_t group);

  /// Returns the unit at position `index` of an epoch, a bijection of [0, units) for every key. All groups
  /// that are complete in the run's stream of units hold units of similar length. `first`: the number of the
  /// epoch's first unit in that stream.
  int64_t unit(uint64_t index, uint64_t first, uint64_t key) const;

  /// Returns the tokens of a row without its padding.
  int64_t length(int64_t row) const { return lengths_[static_cast<size_t>(row)]; }

 private:
  const uint64_t group_;
  uint64_t bucket_ = 0;           // units that are shuffled among each other: a few groups
  std::vector<int32_t> lengths_;  // by row
  std::vector<uint32_t> sorted_;  // units, the longest first
};

/// True if the rows of a source can be grouped: prepared rows of one document each.
bool has_lengths(const TokenSource& source);

}  // namespace hawser::data
