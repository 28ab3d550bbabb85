// Softmax cross entropy of one chunk of logits: loss and gradient in one pass over memory.
#pragma once

#include "engine/base/dtype.h"
#include "engine/base/stream.h"

namespace hawser::kernels {

/// A teacher's rows, one for each target: `top` distinct ids of the complete vocabulary, with their
/// log-probabilities.
inline constexpr int64_t kMostTeacherIds = 1024;
struct Teacher {
  const int32_t* ids = nullptr;     ///< [rows, top]
  const float* logprobs = nullptr;  ///< [rows, top], at most 0
  int64_t top = 0;                  ///< 0: no teacher
  float temperature = 1.0f, weight = 1.0f;

  Teacher from_row(int64_t row) const {
    if (top == 0) return *this;
    return {ids + row * top, logprobs + row * top, top, temperature, weight};
  }
};

/// For each row: z = softcap > 0 ? softcap * tanh(logit / softcap) : logit; losses[r] = weight[r] *
/// (logsumexp(z) - z[target]); 0 if the target is -100. With `backward`, logits are overwritten by
/// dlosses[r]/dlogit * (*grad_scale) (rows without a target by zeros); otherwise they hold z on return.
/// logits [rows,vocab], rows `stride` elements apart, are f32, or bf16 if the table has narrow_logits; losses
/// are f32, computed from the logits as stored. grad_scale: f32 [1] (1 / unmasked tokens of the global
/// batch). weights: f32 [rows], or null: all 1.
///
/// With a teacher of `top` > 0 ids, temperature T and weight w, the loss of a row is instead weight[r] *
/// ((1 - w) * (logsumexp(z) - z[target]) + w * T^2 * sum over its ids of q * log(q / p)), where q is
/// softmax(logprobs / T) over these ids and p is softmax(z / T) over the complete vocabulary.
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
  Teacher teacher = {};
};

/// Loss of ranks that divide the vocabulary (Shoeybi et al., arXiv:1909.08053, section 3). Each rank has the
/// logits of its part: `own` is as in CrossEntropy, with own.vocab entries (may be 0), the first of which is
/// token id `first_word`; targets are ids of the complete vocabulary. The loss takes two kernels and an
/// exchange in between.
inline constexpr int64_t kRowStatistics = 3, kTeacherRowStatistics = 5;
inline int64_t row_statistics(const Teacher& teacher) {
  return teacher.top > 0 ? kTeacherRowStatistics : kRowStatistics;
}

/// statistics f32 [rows, 3]: the maximum of z, the sum of exp(z - maximum), and z[target], or 0 if another
/// rank has the target. Without local entries: -inf, 0, 0. With a teacher [rows, 5]: also the sum of
/// exp((z - maximum) / T), and the sum of q * z over the local ids of the teacher's row. Reads only logits,
/// targets and teacher of `own`.
struct CrossEntropyStatistics {
  CrossEntropy own;
  int64_t first_word = 0;
  float* statistics = nullptr;
};

/// Computes the loss from the statistics [ranks, rows, 3 or 5] of all ranks, combined in fp64 in ascending
/// order of ranks, so that all ranks get the same; and this rank's part of the gradient, as CrossEntropy
/// does.
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
