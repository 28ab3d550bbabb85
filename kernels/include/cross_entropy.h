// Softmax cross entropy of one chunk of logits: loss and gradient in one pass over memory.
#pragma once

#include "engine/base/dtype.h"
#include "engine/base/stream.h"

namespace hawser::kernels {

/// For each row: z = softcap > 0 ? softcap * tanh(logit / softcap) : logit; losses[r] = weight[r] *
/// (logsumexp(z) - z[target]); 0 if the target is -100. With `backward`, logits are overwritten by
/// dlosses[r]/dlogit * (*grad_scale) (rows without a target by zeros); otherwise they hold z on return.
/// logits [rows,vocab], rows `stride` elements apart, are f32, or bf16 if the table has narrow_logits; losses
/// are f32, computed from the logits as stored. grad_scale: f32 [1] (1 / unmasked tokens of the global
/// batch). weights: f32 [rows], or null: all 1.
struct CrossEntropy {
  float* losses = nullptr;
  void* logits = nullptr;
  const int32_t* targets = nullptr;
  const float* grad_scale = nullptr;
  int64_t rows = 0, vocab = 0;
  float softcap = 0.0f;
  bool backward = false;
  DType type = DType::kF32;  ///< type of logits
  int64_t stride = 0;        ///< 0: vocab
  const float* weights = nullptr;
};

/// Loss of ranks that divide the vocabulary (Shoeybi et al., arXiv:1909.08053, section 3). Each rank has the
/// logits of its part: `own` is as in CrossEntropy, with own.vocab entries (may be 0), the first of which is
/// token id `first_word`; targets are ids of the complete vocabulary. The loss takes two kernels and an
/// exchange in between.
inline constexpr int64_t kRowStatistics = 3;

/// statistics f32 [rows, 3]: the maximum of z, the sum of exp(z - maximum), and z[target], or 0 if another
/// rank has the target. Without local entries: -inf, 0, 0. Reads only logits and targets of `own`.
struct CrossEntropyStatistics {
  CrossEntropy own;
  int64_t first_word = 0;
  float* statistics = nullptr;
};

/// Computes the loss from the statistics [ranks, rows, 3] of all ranks, combined in fp64 in ascending order
/// of ranks, so that all ranks get the same; and this rank's part of the gradient, as CrossEntropy does.
struct CrossEntropyDivided {
  CrossEntropy own;
  int64_t first_word = 0;
  const float* statistics = nullptr;
  int64_t ranks = 1;
};

/// z = softcap * tanh(logit / softcap) in place, f32 [n]: the logits that forward and generate return.
struct SoftCap {
  float* x = nullptr;
  int64_t n = 0;
  float softcap = 0.0f;
};

}  // namespace hawser::kernels
