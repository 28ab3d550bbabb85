// The element-wise parts of Muon (Jordan et al., 2024: https://kellerjordan.github.io/posts/muon). Its matrix
// products are calls of matmul (engine/optim/muon.h).
#pragma once

#include "engine/base/dtype.h"
#include "engine/base/exact_sum.h"
#include "engine/base/stream.h"
#include "kernels/include/optimizer.h"

namespace hawser::kernels {

/// The momentum of Muon and its look-ahead (Nesterov), with explicit fma: g = grad * grad_scale; m =
/// momentum*m + (1-momentum)*g; u = momentum*m + (1-momentum)*g. m: f32 [n], updated. u, grad: f32 [n].
struct MuonMomentum {
  float* m = nullptr;
  float* u = nullptr;
  const float* grad = nullptr;
  const OptimizerScalars* scalars = nullptr;
  int64_t n = 0;
  float momentum = 0.95f;
};

/// out = alpha * x + beta * y, in f32 with explicit fma, rounded once. x: f32 [n]. y: [n] of `type` or null
/// (0); out: [n] of `type` (f32 or bf16), may be y, or x if `type` is f32. With `squares`, alpha is
/// divided by the root of that sum, or by eps if that is larger.
struct Axpby {
  void* out = nullptr;
  const float* x = nullptr;
  const void* y = nullptr;
  DType type = DType::kF32;
  int64_t n = 0;
  float alpha = 1, beta = 0;
  const ExactSum* squares = nullptr;
  float eps = 1e-7f;
};

/// The step along an orthogonal direction, element-wise with explicit fma: w = w - lr * weight_decay * w -
/// lr * scale * direction, with lr = scalars->lr * rate. weight: f32 [n] master, updated. copy: [n] of
/// copy_type (bf16 or f16), rounded, or null. direction: f32 [n].
struct MuonUpdate {
  float* weight = nullptr;
  void* copy = nullptr;
  const float* direction = nullptr;
  const OptimizerScalars* scalars = nullptr;
  int64_t n = 0;
  float scale = 1.0f, weight_decay = 0.0f;
  DType copy_type = DType::kBf16;
  float rate = 1.0f;  ///< factor on scalars->lr
};

}  // namespace hawser::kernels
