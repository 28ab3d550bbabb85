// VocabShard: the part of a vocabulary that one of several ranks has. Ranks have equal ranges of token ids,
// the last ranks with padding, because the number of ranks need not divide the vocabulary.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "engine/nn/context.h"

namespace hawser::nn {

struct VocabShard {
  int64_t vocab = 0;
  int64_t room = 0;  ///< vocabulary rows of every rank, with padding
  int64_t tile = 1;  ///< products read multiples of this many rows; rows after the vocabulary are zero

  /// Returns the shard of the embedding or the head, from its parameter.
  static VocabShard of(const ParameterTable& table, std::string_view name) {
    const Parameter& p = table.at(name);
    return {p.shape[0], p.local_shape[0], table.tile_rows()};
  }

  int64_t first(const Context& ctx) const { return ctx.exchange->rank() * room; }
  /// Returns this rank's vocabulary rows without padding; may be 0.
  int64_t count(const Context& ctx) const { return std::clamp<int64_t>(vocab - first(ctx), 0, room); }
  /// Returns the rows of the table that products read: vocabulary rows, and zeros up to a full tile.
  int64_t multiplied(const Context& ctx) const { return whole_tiles(count(ctx)); }
  int64_t whole_tiles(int64_t words) const { return (words + tile - 1) / tile * tile; }
};

}  // namespace hawser::nn
