// TiledSums: gradients of weights as sums over rows that come in tiles, with the bits of sums over all rows
// at once. An MLP that works on some rows at a time (RecomputeSet::rows) has its hidden activations of one
// tile only, but its weights' gradients are products over all rows.
//
// A product sums its rows in blocks, and many rows in segments of several blocks (kernels::SumBlocks). A tile
// ends where a block ends, so that adding its product to the gradient continues the same sum. If there are
// several segments, a tile also ends where a segment ends, and an f32 array next to each gradient holds the
// segment's sum. For biases, an array holds the sum of a block of rows that a tile has begun. Backends that
// state no blocks get tiles of as many rows as wanted; gradients then depend on that number in their last
// bits.
#pragma once

#include <array>
#include <cstdint>

#include "engine/nn/context.h"

namespace hawser::nn {

class TiledSums {
 public:
  /// Takes `bytes` (sum_bytes of all weights) from the workspace, which must stay taken as long as this
  /// exists. `ctx` must outlive this.
  TiledSums(const Context& ctx, int64_t bytes);

  /// Returns the bytes for sums of a weight and a bias of so many elements, 0 for those without gradient.
  static int64_t sum_bytes(const Context& ctx, int64_t weight_elements, int64_t bias_elements);

  /// Goes to the first or the next tile. Returns false after the last.
  bool next();
  int64_t begin() const { return begin_; }
  /// Returns the context of the tile's rows.
  Context context() const;
  /// The most rows of any tile, for which arrays of a tile have room. It does not shrink with more rows.
  int64_t room() const { return room_; }

  // The following functions are for the context of a tile (Context::sum_rows).

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
