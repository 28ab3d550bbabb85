// Operands of the blocks' products under precision fp8: E4M3 for inputs and weights, E5M2 for gradients
// (Micikevicius et al., arXiv:2209.05433), with one power of two for each tensor or for each block of it.
// Weights and activations are stored as in precision bf16; a product rounds its operands into the workspace,
// as bf16 numbers, which hold every fp8 number with its power of two exactly (kernels/include/fp8_round.h),
// or the backend's product rounds them itself and multiplies codes (Matmul::a_fp8). So products, sums and
// all other arithmetic are those of bf16. Each named weight has a power of two of its own, also where one
// product reads several; so have the columns of a gradient that belong to different weights.
#pragma once

#include <cstdint>

#include "engine/base/dtype.h"
#include "kernels/include/table.h"

namespace hawser::nn {

struct Context;

/// The operands of a weight's products: the input, the weight and the gradient of the output. Weights
/// that one product reads share the input of the first.
enum class Fp8Role : int64_t { kInput, kWeight, kGradient };
inline constexpr int64_t kFp8Roles = 3;

/// The maximum from which the scale of an operand follows until a step has noted one. It does not depend on
/// the numbers, of which a rank may have a part only. Inputs up to 112, weights up to 1.75 and gradients up
/// to 1.75 do not saturate; the least numbers are 2^-11, 2^-17 and 2^-31.
inline constexpr float first_fp8_maximum(Fp8Role role) { return role == Fp8Role::kInput ? 64.0f : 1.0f; }

/// Returns the number of an operand of the weight with number `parameter` in ParameterTable::all().
constexpr int64_t fp8_operand(int64_t parameter, Fp8Role role) {
  return parameter * kFp8Roles + static_cast<int64_t>(role);
}

/// The largest magnitude that sets a scale.
enum class Fp8Scaling {
  kOff,      ///< products read the stored numbers
  kHistory,  ///< that of the operand in earlier steps (recipe "delayed")
  kOperand,  ///< that of the operand itself, so a call must have the complete operand ("current")
  kBlocks    ///< that of each block of the operand itself ("blocks")
};

/// The dimension of x[rows, n] or dy[rows, n] over which a product sums: the columns in the forward and for
/// the input's gradient, the rows for the gradients of weights. The products over columns come first, so
/// they record the operand's maximum.
enum class Fp8Sum { kColumns, kRows };

/// How a step rounds operands. Kernels read and write the arrays, which are indexed by
/// ParameterTable::all() * kFp8Roles + role. Only calls with Fp8Scaling::kHistory have them.
struct Fp8Operands {
  Fp8Scaling scaling = Fp8Scaling::kOff;
  int32_t margin = 0;  ///< by how many powers of two a scale leaves room above the maximum
  /// The largest magnitude of each operand in earlier steps; null without a history, and in a dry run.
  const float* maxima = nullptr;
  /// The largest magnitudes of this step, to which calls add; null if they note nothing.
  float* noted = nullptr;

  bool on() const { return scaling != Fp8Scaling::kOff; }
  /// True if steps note maxima, and scales follow from those of earlier steps.
  bool has_history() const { return scaling == Fp8Scaling::kHistory; }
  /// True if arrays that only products read are kept as their codes (compressed_saved.h). For that, the scale
  /// must be known before the operand is computed, and must be the same in every product.
  bool keeps_codes() const { return has_history(); }
  /// True if products round their operands themselves, with scales of complete operands. Those of experts do
  /// not.
  bool in_products(const kernels::KernelTable& table) const {
    return (scaling == Fp8Scaling::kHistory || scaling == Fp8Scaling::kOperand) && table.suited->fp8_products;
  }
};

/// An operand x[rows, n] with `stride` elements between rows.
struct Fp8Operand {
  const void* x = nullptr;
  DType type = DType::kF32;
  int64_t rows = 0, n = 0, stride = 0;
  int64_t index = 0;                                   ///< in the arrays of Fp8Operands
  kernels::Fp8Tile tile = kernels::Fp8Tile::k128x128;  ///< blocks under Fp8Scaling::kBlocks
  /// Groups of rows, as in kernels::Fp8Round. With offsets, only rows below offsets[groups] exist.
  int64_t groups = 1;
  const int32_t* offsets = nullptr;
};

/// Returns the shape of the blocks of an input or a gradient.
constexpr kernels::Fp8Tile fp8_tile(Fp8Sum sum) {
  return sum == Fp8Sum::kColumns ? kernels::Fp8Tile::k1x128 : kernels::Fp8Tile::k128x1;
}

/// Adds a part to an operand that a product rounds (Fp8Operands::in_products).
void add_part(const Context& ctx, const Fp8Operand& operand, DType format, bool notes, int64_t size,
              kernels::Fp8Factor* factor);

/// Rounds an operand to `format` (kE4m3Block or kE5m2Block). y is bf16, with y_stride elements between
/// rows. `notes`: this call notes the operand's maximum, if the step notes any.
void round_operand(const Context& ctx, void* y, int64_t y_stride, const Fp8Operand& operand, DType format,
                   bool notes);

}  // namespace hawser::nn
