// Operands of the blocks' products under precision fp8: E4M3 for inputs and weights, E5M2 for gradients
// (Micikevicius et al., arXiv:2209.05433), with one power of two for each tensor. Weights and activations are
// stored as in precision bf16; a product rounds its operands into the workspace, as bf16 numbers, which hold
// every fp8 number with its power of two exactly (kernels/include/fp8_round.h). So products, sums and all
// other arithmetic are those of bf16. Each named weight has a power of two of its own, also where one product
// reads several; so have the columns of a gradient that belong to different weights.
#pragma once

#include <cstdint>

#include "engine/base/dtype.h"

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

/// How a step rounds operands. Arrays are on the host, indexed by ParameterTable::all() * kFp8Roles + role.
struct Fp8Operands {
  bool on = false;
  bool keeps_codes = false;  ///< arrays that only products read are kept as their codes (compressed_saved.h)
  int32_t margin = 0;        ///< by how many powers of two a scale leaves room above the maximum
  /// The largest magnitude of each operand in earlier steps, which sets its scale. Null: the maximum of the
  /// numbers that a call rounds sets it, so the call must have the whole operand.
  const float* maxima = nullptr;
  /// The largest magnitudes of this step, to which calls add; null if they note nothing.
  float* noted = nullptr;
};

/// An operand x[rows, n] with `stride` elements between rows.
struct Fp8Operand {
  const void* x = nullptr;
  DType type = DType::kF32;
  int64_t rows = 0, n = 0, stride = 0;
  int64_t index = 0;             ///< in the arrays of Fp8Operands
  const int32_t* end = nullptr;  ///< if not null, only rows below *end exist
};

/// Rounds an operand to `format` (kE4m3Block or kE5m2Block). y is bf16, with y_stride elements between
/// rows. `notes`: this call notes the operand's maximum, if the step notes any.
void round_operand(const Context& ctx, void* y, int64_t y_stride, const Fp8Operand& operand, DType format,
                   bool notes);

}  // namespace hawser::nn
