// Adapter: a low-rank term added to a linear (LoRA, Hu et al., arXiv:2106.09685), over one of its stacked
// parts or over several, which then share A.
//
//   y += s B u,  u = A x            s = alpha / rank, or alpha / sqrt(rank)
//   v = s B^T dy;  dB = s dy u^T;  dA = v x^T;  dx += A^T v
//
// Backward recomputes u and v, so nothing is saved. They are scaled once, in f32, and then have the
// activation type. If y or dx has that type, the term is added from f32, in blocks of rows that fit into the
// workspace. Dropout multiplies the input of A and no other path. Its mask is keyed by module, sample,
// position and feature of the full input, so it depends neither on recomputation nor on the layout.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/nn/context.h"
#include "engine/nn/parameter.h"

namespace hawser::nn {

class Adapter {
 public:
  /// A part of the linear's outputs.
  struct Part {
    Place b;
    int64_t begin, out;  ///< first column, number of columns
  };

  /// `module` owns A; its linear reads `in` input features on this rank.
  Adapter(const ParameterTable& table, const std::string& module, int64_t in);
  void add(const Part& part) { parts_.push_back(part); }

  /// Adds to y[rows, ...], whose columns are the linear's columns from `first` on, the terms of the parts
  /// within columns [first, first + columns).
  void forward(const Context& ctx, void* y, DType y_type, int64_t ldy, int64_t first, int64_t columns,
               const void* x, int64_t rows) const;
  /// Adds to dx[rows, in] (dense) from dy[rows, stride].
  void backward_input(const Context& ctx, void* dx, DType dx_type, const void* dy, DType dy_type,
                      int64_t stride, int64_t rows) const;
  /// Computes the gradients of A and B.
  void backward_weight(const Context& ctx, const void* dy, DType dy_type, int64_t stride, const void* x,
                       int64_t rows) const;
  /// Returns the bytes of TiledSums for the gradients of A and B.
  int64_t tiled_sum_bytes(const Context& ctx) const;

 private:
  /// Rows of features, with a stride.
  struct Rows {
    const void* data;
    DType type;
    int64_t stride;
  };
  kernels::Dropout dropout(const Context& ctx) const;
  Rows dropped(const Context& ctx, const void* x, int64_t rows) const;
  const void* compress(const Context& ctx, const Rows& x, int64_t rows) const;
  const void* expand(const Context& ctx, const void* dy, DType dy_type, int64_t stride, int64_t rows) const;
  const void* scaled(const Context& ctx, float* wide, int64_t rows) const;
  void add_product(const Context& ctx, void* y, DType y_type, int64_t ldy, kernels::Matmul m) const;

  std::vector<Part> parts_;
  Place a_;
  int64_t in_, rank_, layer_, site_;
  bool cuts_inputs_;
  float scale_;
  double dropout_;
};

}  // namespace hawser::nn
