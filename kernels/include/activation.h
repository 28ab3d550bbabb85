// The non-linearity of MLPs: GELU (exact and tanh form, Hendrycks and Gimpel, arXiv 1606.08415) and the gated
// forms SwiGLU and GeGLU (Shazeer, arXiv 2002.05202).
#pragma once

#include "engine/base/dtype.h"
#include "engine/base/stream.h"

namespace hawser::kernels {

/// kClampedSilu is the gate of GPT-OSS: x sigmoid(1.702 x), with x clamped to at most 7. Its up factor, which
/// multiplies the activated gate, is 1 + u instead of u = h[r,f+j], with u clamped to [-7, 7]. The gradient
/// of a clamped element is 0. kClampedSilu needs a gate.
enum class Activation : uint8_t { kGelu, kGeluTanh, kSilu, kClampedSilu };
inline constexpr float kSiluLimit = 7.0f, kSiluSlope = 1.702f;

/// Without a gate: y[r,j] = act(h[r,j]), h is [rows,f]. Gated: h is [rows,2f], gate first: y[r,j] =
/// act(h[r,j]) * h[r,f+j]. The arithmetic is in fp32; h and y have type `type` (f32 or bf16). Rows are dense.
struct ActivationForward {
  void* y = nullptr;
  const void* h = nullptr;
  DType type = DType::kF32;
  int64_t rows = 0, f = 0;
  Activation kind = Activation::kGelu;
  bool gated = false;
};

/// Computes dh (same shape and type as h) from dy [rows,f]. If y is not null, it receives the forward's
/// output again, bit for bit, so that it need not be saved. dh may alias h exactly and, without a gate, dy; y
/// may alias dy exactly.
struct ActivationBackward {
  void* dh = nullptr;
  const void* dy = nullptr;
  const void* h = nullptr;
  DType type = DType::kF32;
  int64_t rows = 0, f = 0;
  Activation kind = Activation::kGelu;
  bool gated = false;
  void* y = nullptr;  ///< [rows,f]
};

}  // namespace hawser::kernels
