// Softmax cross entropy: one task per row of logits. A pass goes block by block, so that it reads memory once
// for the maximum and the sum of exponentials of a block. Another pass, if requested, writes the gradient
// over the logits. Computing exponentials takes longer than reading memory, so most of them are computed only
// once. Ranks that divide the vocabulary exchange their statistics of each row in between.
#include "kernels/cpu/cross_entropy_row.h"
#include "kernels/cpu/cross_entropy_teacher.h"
#include "kernels/cpu/parallel.h"

namespace hawser::kernels::HWS_LEVEL {
namespace {

/// Handles a row without a target: it has no loss.
inline void masked_row(const CrossEntropy& a, int64_t r) {
  float* z = logits_of(a, r);
  a.losses[r] = 0;
  if (a.backward) {
    for (int64_t j = 0; j < a.vocab; ++j) z[j] = 0;
  } else if (a.softcap > 0) {
    cap_range(z, a.vocab, a.softcap);
  }
}

/// Number of rows in one task.
inline int64_t row_grain(int64_t vocab) { return vocab < 4096 ? 4096 / (vocab > 0 ? vocab : 1) : 1; }

inline void row(const CrossEntropy& a, int64_t r) {
  const int32_t target = a.targets[r];
  if (target == -100) return masked_row(a, r);
  if (a.teacher.top > 0) return teacher_row(a, r);
  float* z = logits_of(a, r);
  const bool keeps = a.backward && a.softcap <= 0;
  const float logit = z[target];
  int64_t kept = a.vocab;
  const LogSumExp all = keeps ? log_sum_exp_kept(z, a.vocab, logits_of(a, r + 1) - z, kept)
                              : log_sum_exp(z, a.vocab, a.softcap);
  const float weight = weight_of(a, r), z_target = keeps ? logit : z[target];
  const double loss = __builtin_log(all.sum) + (static_cast<double>(all.max) - z_target);
  a.losses[r] = static_cast<float>(loss * weight);
  if (!a.backward) return;
  const float scale = *a.grad_scale * weight;
  gradient(z, a.vocab, kept, all, a.softcap, scale);
  z[target] = target_gradient(z_target, all, a.softcap, scale);
}

inline void statistics_row(const CrossEntropyStatistics& a, int64_t r) {
  const float* z = logits_of(a.own, r);
  const LogSumExp all = log_sum_exp_of(z, a.own.vocab, a.own.softcap);
  const int64_t target = own_target(a.own, a.first_word, r);
  float z_target = target >= 0 ? z[target] : 0.0f;
  if (target >= 0 && a.own.softcap > 0) cap_range(&z_target, 1, a.own.softcap);
  float* out = a.statistics + r * row_statistics(a.own.teacher);
  out[0] = all.max, out[1] = static_cast<float>(all.sum), out[2] = z_target;
  if (a.own.teacher.top > 0) teacher_statistics(a, r, all, out);
}

/// Combines the statistics of a row over all ranks. A rank without vocabulary entries has a maximum of -inf
/// and adds nothing.
inline LogSumExp combine(const CrossEntropyDivided& a, int64_t r, double* z_target) {
  const auto of = [&](int64_t rank) { return a.statistics + (rank * a.own.rows + r) * kRowStatistics; };
  LogSumExp all = {-__builtin_inff(), 0};
  for (int64_t rank = 0; rank < a.ranks; ++rank) all.max = of(rank)[0] > all.max ? of(rank)[0] : all.max;
  *z_target = 0;
  for (int64_t rank = 0; rank < a.ranks; ++rank) {
    all.sum += of(rank)[1] * __builtin_exp(static_cast<double>(of(rank)[0]) - all.max);
    *z_target += of(rank)[2];
  }
  return all;
}

inline void divided_row(const CrossEntropyDivided& a, int64_t r) {
  const CrossEntropy& own = a.own;
  if (own.targets[r] == -100) return masked_row(own, r);
  if (own.teacher.top > 0) return divided_teacher_row(a, r);
  double z_target = 0;
  const LogSumExp all = combine(a, r, &z_target);
  const float weight = weight_of(own, r);
  own.losses[r] = static_cast<float>((__builtin_log(all.sum) + (all.max - z_target)) * weight);
  float* z = logits_of(own, r);
  if (own.softcap > 0) cap_range(z, own.vocab, own.softcap);
  if (!own.backward) return;
  const int64_t target = own_target(own, a.first_word, r);
  const float scale = *own.grad_scale * weight, own_z = target >= 0 ? z[target] : 0.0f;
  gradient(z, own.vocab, own.vocab, all, own.softcap, scale);
  if (target >= 0) z[target] = target_gradient(own_z, all, own.softcap, scale);
}

}  // namespace

void cross_entropy(const CrossEntropy& args, Stream& stream) {
  if (args.rows <= 0 || args.vocab <= 0) return;
  parallel_ranges(stream, args.rows, row_grain(args.vocab), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) row(args, r);
  });
}

void cross_entropy_statistics(const CrossEntropyStatistics& args, Stream& stream) {
  if (args.own.rows <= 0) return;
  parallel_ranges(stream, args.own.rows, row_grain(args.own.vocab), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) statistics_row(args, r);
  });
}

void cross_entropy_divided(const CrossEntropyDivided& args, Stream& stream) {
  if (args.own.rows <= 0) return;
  parallel_ranges(stream, args.own.rows, row_grain(args.own.vocab), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) divided_row(args, r);
  });
}

void soft_cap(const SoftCap& args, Stream& stream) {
  if (args.n <= 0 || !(args.softcap > 0)) return;
  parallel_ranges(stream, args.n, 8192,
                  [&](int64_t begin, int64_t end) { cap_range(args.x + begin, end - begin, args.softcap); });
}

}  // namespace hawser::kernels::HWS_LEVEL
