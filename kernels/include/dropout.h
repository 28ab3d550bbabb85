// Dropout masks. They are a pure function of (seed, layer, site, sample, position, feature), so they do not
// depend on layout, thread count or recomputation.
#pragma once

#include "engine/base/philox.h"

namespace hawser::kernels {

/// The data from which a site computes its mask. p == 0 means no dropout; the other fields are not read then.
struct Dropout {
  float p = 0.0f;                     ///< probability of zero; other values are scaled by 1 / (1 - p)
  uint64_t key = 0;                   ///< philox_derive(seed, layer, site)
  const uint64_t* samples = nullptr;  ///< [batch]: global sample number of each row of the batch
  /// Number in the batch of the operand's row 0, if the operand has only some of the rows.
  int64_t first_row = 0;
  int64_t first_block =
      0;  ///< features before the operand's first one, divided by 4, if the operand has only some of them
          ///< (residual)
  /// If chunk > 0, rows have 2 chunk positions: the first half is positions from `low` on, the second from
  /// `high` on.
  int64_t chunk = 0, low = 0, high = 0;
};

/// Sample and position that determine the mask of row r of an operand, in a batch of rows of `seq` positions.
struct DropoutRow {
  uint64_t sample, position;
};
static constexpr inline DropoutRow dropout_row(const Dropout& dropout, int64_t seq, int64_t r) {
  const int64_t row = dropout.first_row + r, t = row % seq;
  int64_t position = t;
  if (dropout.chunk > 0) position = t < dropout.chunk ? dropout.low + t : dropout.high + t - dropout.chunk;
  return {dropout.samples[row / seq], static_cast<uint64_t>(position)};
}

/// Returns the four words for features 4*block .. 4*block+3 of one position of one sample. An element is
/// dropped if philox_uniform(word) < p. Attention uses position = (first_head + head) * 2^32 + query and
/// feature = key position.
static constexpr inline PhiloxBlock dropout_words(uint64_t key, uint64_t sample, uint64_t position,
                                                  uint64_t block) {
  return philox(key ^ (sample * 0x9E3779B97F4A7C15ull), position, block);
}

}  // namespace hawser::kernels
