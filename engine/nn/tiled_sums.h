// TiledSums: computes gradients of weights from rows that come in tiles, with the bits of sums over all rows
// at once. It is needed because an MLP that works on some rows at a time (RecomputeSet::rows) has the hidden
// activations of one tile only, but the gradients of its weights are sums over all rows.
//
// A product sums its rows in blocks, and many rows in segments of several blocks (kernels::SumBlocks). A tile
// ends where a block ends, so that adding its product to the gradient continues the same sum. If there are
// several segments, a tile also ends where a segment ends, and an f32 array next to each gradient holds the
// segment's sum. For biases, an array holds the sum of a block of rows that a tile has begun but not
// finished. On backends that state no blocks, tiles have the wanted number of rows, and the last bits of
// gradients depend on this number.
#pragma once

#include <array>
#include <cstdint>

#include "engine/nn/context.h"

namespace hawser::nn {

class TiledSums {
 public:
  /// Takes `bytes` (the sum_bytes of all weights) from the workspace, where they must stay taken as long as
  /// this object exists. `ctx` must outlive this object.
  TiledSums(const Context& ctx, int64_t bytes);

  /// Returns the bytes for the sums of a weight and a bias with so many elements (0: it has no gradient).
  static int64_t sum_bytes(const Context& ctx, int64_t weight_elements, int64_t bias_elements);

  /// Goes to the first or the next tile. Returns false after the last.
  bool next();
  int64_t begin() const { return begin_; }
  /// Returns the context of the tile's rows.
  Context context() const;
  /// Returns the number of rows for which the arrays of a tile have room: at least the rows of the largest
  /// tile. It does not shrink if there are more rows.
  int64_t room() const { return room_; }

  // Context::sum_rows calls the following functions with the context of a tile.

  void add(const Context& tile, kernels::Matmul m, Place to) const;
  void add(const Context& tile, kernels::ColumnSum s, Place to) const;

 private:
  float* sum_of(Place to, int64_t elements) const;
  bool is_segmented() const { return blocks_.segment < rows_; }
  int64_t segment_end() const;

  struct Sum {
    Place place;
    float* data = nullptr;
  };
  const Context& ctx_;
  int64_t rows_, room_, begin_ = 0, end_ = 0;
  kernels::SumBlocks blocks_;
  mutable Region memory_;
  mutable std::array<Sum, 16> sums_{};  ///< of weights, biases and adapters of two linears
  mutable size_t count_ = 0;
};

}  // namespace hawser::nn
