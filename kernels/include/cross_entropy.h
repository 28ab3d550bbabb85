// Softmax cross entropy of one chunk of logits: loss and gradient in one pass over memory.
#pragma once

#include "engine/base/dtype.h"
#include "engine/base/stream.h"

namespace hawser::kernels {

/// For each row: z = softcap > 0 ? softcap * tanh(logit / softcap) : logit;
/// losses[r] = weight[r] * (logsumexp(z) - z[target]); 0 where the target is -100.
/// With `backward`, logits are overwritten by dlosses[r]/dlogit * (*grad_scale) (zero rows where masked);
/// else they hold z on return. logits [rows,vocab], rows `stride` elements apart, f32, or bf16 where the table
/// says narrow_logits; losses f32, of the logits as they are stored. grad_scale: f32 [1] (1 / unmasked
/// tokens of the global batch). weights: f32 [rows], or null: all 1.
struct CrossEntropy {
  float* losses = nullptr;
  void* logits = nullptr;
  const int32_t* targets = nullptr;
  const float* grad_scale = nullptr;
  int64_t rows = 0, vocab = 0;
  float softcap = 0.0f;
  bool backward = false;
  DType type = DType::kF32;  ///< of logits
  int64_t stride = 0;        ///< 0: vocab
  const float* weights = nullptr;
};

/// z = softcap * tanh(logit / softcap) in place, f32 [n]: logits as forward and generate return them.
struct SoftCap {
  float* x = nullptr;
  int64_t n = 0;
  float softcap = 0.0f;
};

}  // namespace hawser::kernels
