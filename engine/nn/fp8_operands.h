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

/// How a step rounds operands. Arrays are on the host, indexed by ParameterTable::all() * kFp8Roles + role.
struct Fp8Operands {
  bool on = false;
  int32_t margin = 0;  ///< by how many powers of two a scale leaves room above the maximum
  /// The largest magnitude of each operand in earlier steps, which sets its scale; null, or 0 for an operand
  /// without any: its own maximum does.
  const float* maxima = nullptr;
  /// The largest magnitudes of this step, to which calls add; null if they note nothing.
  float* noted = nullptr;
};

/// An operand x[rows, n] with `stride` elements between rows.
struct Fp8Operand {
  const void* x = nullptr;
  DType type = DType::kF32;
  int64_t rows = 0, n = 0, stride = 0;
  int64_t index = 0;  ///< in the arrays of Fp8Operands
};

/// Rounds an operand to `format` (kE4m3Block or kE5m2Block). y is bf16, with y_stride elements between
/// rows. `notes`: this call notes the operand's maximum, if the step notes any.
void round_operand(const Context& ctx, void* y, int64_t y_stride, const Fp8Operand& operand, DType format,
                   bool notes);

}  // namespace hawser::nn
