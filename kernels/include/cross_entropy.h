// Softmax cross entropy of one chunk of logits: loss and gradient in one pass over memory.
#pragma once

#include "engine/base/dtype.h"
#include "engine/base/stream.h"

namespace hawser::kernels {

/// For each row: z = softcap > 0 ? softcap * tanh(logit / softcap) : logit;
/// losses[r] = weight[r] * (logsumexp(z) - z[target]); 0 where the target is -100.
/// With `backward`, logits are overwritten by dlosses[r]/dlogit * (*grad_scale) (zero rows where masked);
/// else they hold z on return. logits [rows,vocab], rows `stride` elements apart, f32, or bf16 where the
/// table says narrow_logits; losses f32, of the logits as they are stored. grad_scale: f32 [1] (1 / unmasked
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

/// Of ranks that divide the vocabulary (Shoeybi et al., arXiv:1909.08053, section 3), each has the logits of
/// its own words: `own` is as in CrossEntropy, with own.vocab of them (may be 0), of which the first is word
/// number `first_word`; targets are words of the whole vocabulary. The loss takes two kernels, and an
/// exchange between.
inline constexpr int64_t kRowStatistics = 3;

/// statistics f32 [rows, 3]: the maximum of z, the sum of exp(z - maximum), and z[target], or 0 if another
/// rank has that word. Without own words: -inf, 0, 0. Reads own's logits and targets only.
struct CrossEntropyStatistics {
  CrossEntropy own;
  int64_t first_word = 0;
  float* statistics = nullptr;
};

/// The loss from the statistics [ranks, rows, 3] of all ranks, combined in fp64 in ascending order of ranks,
/// so that all compute the same; and this rank's part of the gradient, as CrossEntropy does.
struct CrossEntropyDivided {
  CrossEntropy own;
  int64_t first_word = 0;
  const float* statistics = nullptr;
  int64_t ranks = 1;
};

/// z = softcap * tanh(logit / softcap) in place, f32 [n]: logits as forward and generate return them.
struct SoftCap {
  float* x = nullptr;
  int64_t n = 0;
  float softcap = 0.0f;
};

}  // namespace hawser::kernels
