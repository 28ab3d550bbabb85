// Optimizer steps. Each is one pass over memory. lr in the formulas is scalars->lr * rate.
#pragma once

#include "engine/base/dtype.h"
#include "engine/base/stream.h"
#include "kernels/include/stochastic_rounding.h"

namespace hawser::kernels {

/// Scalars that change from step to step, read from an arena slot.
struct OptimizerScalars {
  float lr = 0;
  float grad_scale = 1;        ///< clip factor, divided by the loss scale
  float bias_correction1 = 1;  ///< 1 - beta1^t
  float bias_correction2 = 1;  ///< 1 - beta2^t
  uint64_t step = 0;           ///< t; part of the key of stochastic rounding
};

/// AdamW (Loshchilov and Hutter, arXiv 1711.05101), element-wise with explicit fma, IEEE division and square
/// root: g = grad * grad_scale; m = beta1*m + (1-beta1)*g; v = beta2*v + (1-beta2)*g*g; w = w - lr *
/// weight_decay * w - lr * (m / bc1) / (sqrt(v / bc2) + eps). weight: f32 [n] master, updated. copy: [n] of
/// copy_type (bf16 or f16), rounded, or null. m, v: f32 [n].
struct AdamW {
  float* weight = nullptr;
  void* copy = nullptr;
  float* m = nullptr;
  float* v = nullptr;
  const float* grad = nullptr;
  const OptimizerScalars* scalars = nullptr;
  int64_t n = 0;
  float beta1 = 0.9f, beta2 = 0.999f, eps = 1e-8f, weight_decay = 0.0f;
  DType copy_type = DType::kBf16;
  float rate = 1.0f;  ///< factor on scalars->lr
};

/// Settings of elements up to `end`, from the end of the previous run on.
struct SettingsRun {
  int64_t end = 0;
  float weight_decay = 0.0f, rate = 1.0f;
};

/// AdamW with both moments in records (state_records.h): they are decoded, updated as by AdamW, used for the
/// step as they are in f32, and encoded again. weight: f32 [n] master, updated. copy: [n] of copy_type,
/// rounded, or null. m, v: the records of n numbers, kS8Block and kU8Block. n: a multiple of 64. runs:
/// settings of all elements, where the first has number `first`; they may change within a record.
struct AdamW8 {
  float* weight = nullptr;
  void* copy = nullptr;
  void* m = nullptr;
  void* v = nullptr;
  const float* grad = nullptr;
  const OptimizerScalars* scalars = nullptr;
  const SettingsRun* runs = nullptr;
  int64_t first = 0, n = 0;
  float beta1 = 0.9f, beta2 = 0.999f, eps = 1e-8f;
  DType copy_type = DType::kBf16;
};

/// SGD with momentum, as in PyTorch: g = grad * grad_scale + weight_decay * w; buf = momentum * buf + g; w -=
/// lr * (nesterov ? g + momentum * buf : buf). buf: f32 [n], null if momentum is 0.
struct Sgd {
  float* weight = nullptr;
  void* copy = nullptr;
  float* buf = nullptr;
  const float* grad = nullptr;
  const OptimizerScalars* scalars = nullptr;
  int64_t n = 0;
  float momentum = 0.0f, weight_decay = 0.0f;
  bool nesterov = false;
  DType copy_type = DType::kBf16;
  float rate = 1.0f;  ///< factor on scalars->lr
};

/// Lion (Chen et al., arXiv 2302.06675, algorithm 2), element-wise with explicit fma: g = grad * grad_scale;
/// c = beta1*m + (1-beta1)*g; w = w - lr * weight_decay * w - lr * sign(c); m = beta2*m + (1-beta2)*g.
/// sign(0) is 0, and the sign of a NaN is that NaN. weight: f32 [n] master, updated. copy: [n] of copy_type
/// (bf16 or f16), rounded, or null. m: f32 [n].
struct Lion {
  float* weight = nullptr;
  void* copy = nullptr;
  float* m = nullptr;
  const float* grad = nullptr;
  const OptimizerScalars* scalars = nullptr;
  int64_t n = 0;
  float beta1 = 0.9f, beta2 = 0.99f, weight_decay = 0.0f;
  DType copy_type = DType::kBf16;
  float rate = 1.0f;  ///< factor on scalars->lr
};

/// AdamW on weight, m, v and grad in bf16 [n] each, without an fp32 copy. They are widened to f32 and updated
/// as by AdamW; weight, m and v are then rounded stochastically (scalars->step is the step). All three need
/// that: with rounding to nearest, v would stop changing once (1 - beta2) v is below half a unit in the last
/// place.
struct AdamWBf16 {
  void* weight = nullptr;
  void* m = nullptr;
  void* v = nullptr;
  const void* grad = nullptr;
  const OptimizerScalars* scalars = nullptr;
  int64_t n = 0;
  float beta1 = 0.9f, beta2 = 0.999f, eps = 1e-8f, weight_decay = 0.0f;
  RoundingRun run;
  float rate = 1.0f;  ///< factor on scalars->lr
};

/// Sgd in bf16: weight, buf (null if momentum is 0) and grad are bf16 [n]; buf is rounded like a first
/// moment.
struct SgdBf16 {
  void* weight = nullptr;
  void* buf = nullptr;
  const void* grad = nullptr;
  const OptimizerScalars* scalars = nullptr;
  int64_t n = 0;
  float momentum = 0.0f, weight_decay = 0.0f;
  bool nesterov = false;
  RoundingRun run;
  float rate = 1.0f;  ///< factor on scalars->lr
};

/// Lion in bf16: weight, m and grad are bf16 [n]; weight and m are rounded as by AdamWBf16.
struct LionBf16 {
  void* weight = nullptr;
  void* m = nullptr;
  const void* grad = nullptr;
  const OptimizerScalars* scalars = nullptr;
  int64_t n = 0;
  float beta1 = 0.9f, beta2 = 0.99f, weight_decay = 0.0f;
  RoundingRun run;
  float rate = 1.0f;  ///< factor on scalars->lr
};

}  // namespace hawser::kernels
