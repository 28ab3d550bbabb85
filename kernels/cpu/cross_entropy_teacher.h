// The cross entropy of rows with a teacher (kernels/include/cross_entropy.h). At temperature 1 both parts of
// the loss share one softmax, so a teacher only adds work on its ids. Any other temperature needs a second
// sum of exponentials. In the gradient, only the columns of the target and of the teacher's ids have more
// terms than softmax probabilities; these columns are computed in fp64.
#pragma once

#include "kernels/cpu/cross_entropy_row.h"

namespace hawser::kernels::HWS_LEVEL {
namespace {

/// A teacher's row at its temperature.
struct TeacherRow {
  double q[kMostTeacherIds];
  double negative_entropy;  ///< the sum of q * log(q)
};

/// The sums over a row of logits that the loss needs.
struct RowSums {
  LogSumExp all;
  double warm;      ///< the sum of exp((z - maximum) / T)
  double z_target;  ///< capped
  double below;     ///< the sum of q * (maximum - z) over the teacher's ids
};

HWS_NOINLINE void read_teacher(const Teacher& t, int64_t r, TeacherRow* row) {
  const float* const logprobs = t.logprobs + r * t.top;
  const double inverse = 1.0 / t.temperature;
  double max = logprobs[0], sum = 0, dot = 0;
  for (int64_t i = 1; i < t.top; ++i) max = logprobs[i] > max ? logprobs[i] : max;
  for (int64_t i = 0; i < t.top; ++i) sum += row->q[i] = __builtin_exp((logprobs[i] - max) * inverse);
  for (int64_t i = 0; i < t.top; ++i) {
    row->q[i] /= sum;
    dot += row->q[i] * ((logprobs[i] - max) * inverse);
  }
  row->negative_entropy = dot - __builtin_log(sum);
}

/// Returns the sum of exp((z - max) * inverse): fp32 within a block, fp64 across blocks.
HWS_NOINLINE double warm_sum(const float* z, int64_t vocab, float max, float inverse) {
  const vf shift = vset(max), factor = vset(inverse);
  double all = 0;
  for (int64_t begin = 0; begin < vocab; begin += kBlock) {
    const int64_t n = block_size(vocab, begin);
    const float* const x = z + begin;
    vf sum = vzero();
    int64_t j = 0;
    for (; j + kLanes <= n; j += kLanes) sum = vadd(sum, vexp(vmul(vsub(vload(x + j), shift), factor)));
    if (j < n) {
      const int rest = static_cast<int>(n - j);
      const vf e = vexp(vmul(vsub(vload_n(x + j, rest), shift), factor));
      sum = vadd(sum, vselect_lt(viota(), vset(static_cast<float>(rest)), e, vzero()));
    }
    all += vsum(sum);
  }
  return all;
}

inline double teacher_loss(const Teacher& t, const TeacherRow& row, const RowSums& sums) {
  const double entropy = __builtin_log(sums.all.sum) + (sums.all.max - sums.z_target);
  const double divergence = __builtin_log(sums.warm) + row.negative_entropy + sums.below / t.temperature;
  return (1.0 - t.weight) * entropy +
         static_cast<double>(t.weight) * t.temperature * t.temperature * divergence;
}

/// z[j] = (weighted sum of the probabilities of both softmaxes) * slope of the cap * scale, for capped z.
HWS_NOINLINE void warm_gradient(float* z, int64_t vocab, const Teacher& t, const RowSums& sums, float softcap,
                                float scale) {
  const vf shift = vset(sums.all.max), inverse = vset(1.0f / t.temperature), one = vset(1.0f);
  const vf plain = vset(static_cast<float>((1.0 - t.weight) * scale / sums.all.sum));
  const vf warm = vset(static_cast<float>(static_cast<double>(t.weight) * t.temperature * scale / sums.warm));
  const vf inverse_cap = vset(softcap > 0 ? 1.0f / softcap : 0.0f);
  each_vector_in_place(z, vocab, [&](auto x) {
    const auto below = vsub(x, shift);
    const auto p = vadd(vmul(vexp(below), plain), vmul(vexp(vmul(below, inverse)), warm));
    const auto ratio = vmul(x, inverse_cap);
    return vmul(p, vfnma(ratio, ratio, one));
  });
}

/// Computes the gradient at the columns of the target and of the teacher's ids, from their capped logits.
struct NamedColumns {
  const Teacher& t;
  const RowSums& sums;
  float softcap, scale;

  float at(float z, bool is_target, double q) const {
    const double below = static_cast<double>(z) - sums.all.max;
    const double ratio = softcap > 0 ? static_cast<double>(z) / softcap : 0.0;
    const double p = __builtin_exp(below) / sums.all.sum;
    const double warm = t.temperature == 1.0f ? p : __builtin_exp(below / t.temperature) / sums.warm;
    const double by_target = (1.0 - t.weight) * (p - (is_target ? 1.0 : 0.0));
    const double by_teacher = static_cast<double>(t.weight) * t.temperature * (warm - q);
    return static_cast<float>((by_target + by_teacher) * (1.0 - ratio * ratio) * scale);
  }
};

/// Overwrites capped logits of `own`, whose first column is token id `first_word`, with the gradient. From
/// column `kept` on, z already holds exponentials. `named` and `named_target`: capped logits of the teacher's
/// ids in these columns, and of the target.
HWS_NOINLINE void teacher_gradient(const CrossEntropy& own, int64_t first_word, int64_t r,
                                   const TeacherRow& row, const RowSums& sums, const float* named,
                                   float named_target, int64_t kept) {
  const Teacher& t = own.teacher;
  float* const z = logits_of(own, r);
  const float scale = *own.grad_scale * weight_of(own, r);
  if (t.temperature == 1.0f)
    gradient(z, own.vocab, kept, sums.all, own.softcap, scale);
  else
    warm_gradient(z, own.vocab, t, sums, own.softcap, scale);
  const NamedColumns columns = {t, sums, own.softcap, scale};
  const int64_t target = own_target(own, first_word, r);
  if (target >= 0) z[target] = columns.at(named_target, true, 0.0);
  for (int64_t i = 0; i < t.top; ++i) {
    const int64_t column = t.ids[r * t.top + i] - first_word;
    if (column >= 0 && column < own.vocab) z[column] = columns.at(named[i], column == target, row.q[i]);
  }
}

/// Copies the logits of the teacher's ids in these columns.
inline void take_named(const CrossEntropy& own, int64_t first_word, int64_t r, float* named) {
  const float* const z = logits_of(own, r);
  for (int64_t i = 0; i < own.teacher.top; ++i) {
    const int64_t column = own.teacher.ids[r * own.teacher.top + i] - first_word;
    named[i] = column >= 0 && column < own.vocab ? z[column] : 0.0f;
  }
}

HWS_NOINLINE void teacher_row(const CrossEntropy& a, int64_t r) {
  float* const z = logits_of(a, r);
  const Teacher& t = a.teacher;
  TeacherRow row;
  read_teacher(t, r, &row);
  if (a.softcap > 0) cap_range(z, a.vocab, a.softcap);
  float named[kMostTeacherIds];
  take_named(a, 0, r, named);
  const bool warms = t.temperature != 1.0f, keeps = a.backward && a.softcap <= 0 && !warms;
  const float z_target = z[a.targets[r]];
  int64_t kept = a.vocab;
  RowSums sums;
  sums.all =
      keeps ? log_sum_exp_kept(z, a.vocab, logits_of(a, r + 1) - z, kept) : log_sum_exp(z, a.vocab, 0.0f);
  sums.warm = warms ? warm_sum(z, a.vocab, sums.all.max, 1.0f / t.temperature) : sums.all.sum;
  sums.z_target = z_target, sums.below = 0;
  for (int64_t i = 0; i < t.top; ++i) sums.below += row.q[i] * (static_cast<double>(sums.all.max) - named[i]);
  a.losses[r] = static_cast<float>(teacher_loss(t, row, sums) * weight_of(a, r));
  if (a.backward) teacher_gradient(a, 0, r, row, sums, named, z_target, kept);
}

/// Writes the last two statistics of a row whose columns have the statistics `all`.
HWS_NOINLINE void teacher_statistics(const CrossEntropyStatistics& a, int64_t r, const LogSumExp& all,
                                     float* out) {
  const CrossEntropy& own = a.own;
  const Teacher& t = own.teacher;
  const float* const z = logits_of(own, r);
  out[3] = out[1], out[4] = 0;
  if (own.targets[r] == -100) return;
  if (t.temperature != 1.0f) {
    double warm = 0;
    float block[kBlock];
    for (int64_t j = 0; j < own.vocab; j += kBlock) {
      const int64_t n = block_size(own.vocab, j);
      __builtin_memcpy(block, z + j, static_cast<size_t>(n) * sizeof(float));
      if (own.softcap > 0) cap_range(block, n, own.softcap);
      warm += warm_sum(block, n, all.max, 1.0f / t.temperature);
    }
    out[3] = static_cast<float>(warm);
  }
  TeacherRow row;
  read_teacher(t, r, &row);
  float named[kMostTeacherIds];
  take_named(own, a.first_word, r, named);
  if (own.softcap > 0) cap_range(named, t.top, own.softcap);
  double dot = 0;
  for (int64_t i = 0; i < t.top; ++i) dot += row.q[i] * named[i];
  out[4] = static_cast<float>(dot);
}

/// Combines the statistics of a row over all ranks. A rank without vocabulary entries has a maximum of -inf
/// and adds nothing.
inline RowSums combine_with_teacher(const CrossEntropyDivided& a, int64_t r) {
  const auto of = [&](int64_t rank) {
    return a.statistics + (rank * a.own.rows + r) * kTeacherRowStatistics;
  };
  RowSums sums = {{-__builtin_inff(), 0}, 0, 0, 0};
  for (int64_t rank = 0; rank < a.ranks; ++rank)
    sums.all.max = of(rank)[0] > sums.all.max ? of(rank)[0] : sums.all.max;
  double dot = 0;
  for (int64_t rank = 0; rank < a.ranks; ++rank) {
    const double below = static_cast<double>(of(rank)[0]) - sums.all.max;
    sums.all.sum += of(rank)[1] * __builtin_exp(below);
    sums.warm += of(rank)[3] * __builtin_exp(below / a.own.teacher.temperature);
    sums.z_target += of(rank)[2];
    dot += of(rank)[4];
  }
  sums.below = sums.all.max - dot;
  return sums;
}

HWS_NOINLINE void divided_teacher_row(const CrossEntropyDivided& a, int64_t r) {
  const CrossEntropy& own = a.own;
  float* const z = logits_of(own, r);
  TeacherRow row;
  read_teacher(own.teacher, r, &row);
  const RowSums sums = combine_with_teacher(a, r);
  own.losses[r] = static_cast<float>(teacher_loss(own.teacher, row, sums) * weight_of(own, r));
  if (own.softcap > 0) cap_range(z, own.vocab, own.softcap);
  if (!own.backward) return;
  float named[kMostTeacherIds];
  take_named(own, a.first_word, r, named);
  const int64_t target = own_target(own, a.first_word, r);
  const float z_target = target >= 0 ? z[target] : 0.0f;
  teacher_gradient(own, a.first_word, r, row, sums, named, z_target, own.vocab);
}

}  // namespace
}  // namespace hawser::kernels::HWS_LEVEL
