// Muon (Jordan et al., 2024: https://kellerjordan.github.io/posts/muon): a step along the momentum of a
// matrix, made nearly orthogonal by five Newton-Schulz steps. They need the whole matrix, which ranks may
// hold in pieces; the momentum before them and the update behind them are element-wise (optimizer.h).
#pragma once

#include <cstdint>
#include <span>

#include "engine/base/exact_sum.h"
#include "engine/nn/parameter.h"
#include "engine/nn/region.h"
#include "engine/optim/optim_config.h"
#include "kernels/include/table.h"

namespace hawser::optim {

/// Elements [begin, begin + n) of a window of a matrix in row-major order, at element `at` of a buffer of
/// f32. The window has `width` columns (0: all) and begins at element `corner` of the matrix.
struct MatrixPiece {
  int64_t begin = 0, n = 0;
  int64_t at = 0;
  int64_t corner = 0, width = 0;
};

struct Orthogonal {
  int64_t rows = 0, columns = 0;
  /// The type of the factors of products; sums are f32.
  DType type = DType::kF32;
  const float* from = nullptr;
  std::span<const MatrixPiece> pieces;  ///< of the matrix in `from`, each element once, in any order
  float* to = nullptr;                  ///< may be `from`
  std::span<const MatrixPiece> copies;  ///< where the result goes in `to`; elements may occur several times
  ExactSum* squares = nullptr;          ///< zero
};

/// With u / ||u|| (Frobenius) of the matrix as X, repeats X = a X + (b A + c A^2) X five times, where A is
/// X X^T and (a, b, c) = (3.4445, -4.7750, 2.0315), or the same from the right if there are more rows than
/// columns. The result depends neither on the pieces nor on the number of workers. A matrix of zeros stays
/// zero.
void orthogonalise(const Orthogonal& call, const kernels::KernelTable& kernels, nn::Region* workspace,
                   Stream& stream);

/// Returns the type of the factors of its products, where those of the model are of type `compute`: bf16
/// unless that is f32.
inline DType product_type(DType compute) { return compute == DType::kF32 ? DType::kF32 : DType::kBf16; }

/// Returns the factor on the update of a matrix of these rows and columns.
double muon_scale(const OptimizerConfig& config, int64_t rows, int64_t columns);

}  // namespace hawser::optim
