// Softmax cross entropy: one task per row of logits. A pass goes block by block, so that it reads memory once
// for the maximum and the sum of exponentials of a block. Another pass, if requested, writes the gradient
// over the logits. Computing exponentials takes longer than reading memory, so most of them are computed only
// once. Ranks that divide the vocabulary exchange their statistics of each row in between.
#include HWS_SIMD

#include "kernels/cpu/level.h"
#include "kernels/cpu/parallel.h"

namespace hawser::kernels::HWS_LEVEL {
namespace {

constexpr int64_t kBlock = 4096;  // elements; a multiple of every level's step
constexpr int kUnroll = 4;
constexpr int kLine = 16;  // floats of a cache line

/// The largest of z and the sum of exp(z - max): fp32 within a block, fp64 across blocks.
struct LogSumExp {
  float max;
  double sum;
};

inline void cap_range(float* x, int64_t n, float softcap) {
  const vf cap = vset(softcap), inverse = vset(1.0f / softcap);
  int64_t j = 0;
  for (; j + kLanes <= n; j += kLanes) vstore(x + j, vmul(cap, vtanh(vmul(vload(x + j), inverse))));
  if (j == n) return;
  const int rest = static_cast<int>(n - j);
  vstore_n(x + j, vmul(cap, vtanh(vmul(vload_n(x + j, rest), inverse))), rest);
}

inline float max_of(const float* z, int64_t n) {
  vf max[kUnroll];
  for (int u = 0; u < kUnroll; ++u) max[u] = vset(z[0]);
  int64_t j = 0;
  for (; j + kUnroll * kLanes <= n; j += kUnroll * kLanes) {
    for (int u = 0; u < kUnroll; ++u) max[u] = vmax(max[u], vload(z + j + u * kLanes));
  }
  float best = vhmax(vmax(vmax(max[0], max[1]), vmax(max[2], max[3])));
  for (; j < n; ++j) best = z[j] > best ? z[j] : best;
  return best;
}

/// Returns the sum of exp(z - max), and stores these exponentials over z if kStores. Prefetches the elements
/// `ahead` positions further on, because memory would otherwise be idle during the computation.
template <bool kStores>
HWS_NOINLINE float sum_of_exp(float* z, int64_t n, float max, int64_t ahead) {
  const vf shift = vset(max);
  Group<kUnroll> sums = {vzero(), vzero(), vzero(), vzero()};
  int64_t j = 0;
  for (; j + kUnroll * kLanes <= n; j += kUnroll * kLanes) {
    for (int line = 0; line < kUnroll * kLanes; line += kLine) __builtin_prefetch(z + j + ahead + line);
    const Group<kUnroll> e = vexp(vsub(load_group<kUnroll>(z + j), shift));
    if (kStores) store(z + j, e);
    sums = vadd(sums, e);
  }
  vf(&sum)[kUnroll] = sums.v;
  for (; j + kLanes <= n; j += kLanes) {
    const vf e = vexp(vsub(vload(z + j), shift));
    if (kStores) vstore(z + j, e);
    sum[0] = vadd(sum[0], e);
  }
  if (j < n) {
    const int rest = static_cast<int>(n - j);
    const vf e = vexp(vsub(vload_n(z + j, rest), shift));
    if (kStores) vstore_n(z + j, e, rest);
    sum[1] = vadd(sum[1], vselect_lt(viota(), vset(static_cast<float>(rest)), e, vzero()));
  }
  return vsum(vadd(vadd(sum[0], sum[1]), vadd(sum[2], sum[3])));
}

/// Adds a block's exponentials to the statistics, of which `max` is the new maximum.
inline void add_block(LogSumExp& all, float max, float sum) {
  all.sum = all.sum * __builtin_exp(static_cast<double>(all.max) - max) + sum;
  all.max = max;
}

inline int64_t block_size(int64_t vocab, int64_t j) { return vocab - j < kBlock ? vocab - j : kBlock; }

/// Returns the statistics of a row, and caps z in place.
HWS_NOINLINE LogSumExp log_sum_exp(float* z, int64_t vocab, float softcap) {
  LogSumExp all = {0, 0};
  for (int64_t j = 0; j < vocab; j += kBlock) {
    const int64_t n = block_size(vocab, j);
    if (softcap > 0) cap_range(z + j, n, softcap);
    const float block_max = max_of(z + j, n), max = j == 0 || block_max > all.max ? block_max : all.max;
    add_block(all, max, sum_of_exp<false>(z + j, n, max, kBlock));
  }
  return all;
}

/// Like log_sum_exp without a cap, with the same bits. From the block with the row's maximum on, it
/// overwrites z with exp(z - max), which the gradient needs, and sets `kept` to the first of these columns.
/// It prefetches the next row, `next` elements further on.
HWS_NOINLINE LogSumExp log_sum_exp_kept(float* z, int64_t vocab, int64_t next, int64_t& kept) {
  const float row_max = max_of(z, vocab);
  LogSumExp all = {0, 0};
  kept = vocab;
  for (int64_t j = 0; j < vocab; j += kBlock) {
    const int64_t n = block_size(vocab, j);
    const float block_max = kept < vocab ? row_max : max_of(z + j, n);
    const float max = j == 0 || block_max > all.max ? block_max : all.max;
    if (max == row_max && kept == vocab) kept = j;
    add_block(all, max,
              kept < vocab ? sum_of_exp<true>(z + j, n, max, next) : sum_of_exp<false>(z + j, n, max, next));
  }
  return all;
}

/// Calls body for the vectors of n elements, in groups as far as possible; z[j] becomes what it returns.
template <class Body>
HWS_INLINE void each_vector_in_place(float* z, int64_t n, const Body& body) {
  int64_t j = 0;
  for (; j + kUnroll * kLanes <= n; j += kUnroll * kLanes) store(z + j, body(load_group<kUnroll>(z + j)));
  for (; j + kLanes <= n; j += kLanes) vstore(z + j, body(vload(z + j)));
  if (j < n) {
    const int rest = static_cast<int>(n - j);
    vstore_n(z + j, body(vload_n(z + j, rest)), rest);
  }
}

/// z[j] = (exp(z[j] - max) / sum) * slope of the cap * scale, for capped z. From column `kept` on, z already
/// holds the exponentials. The element of the target is computed separately.
HWS_NOINLINE void gradient(float* z, int64_t vocab, int64_t kept, const LogSumExp& all, float softcap,
                           float grad_scale) {
  const vf shift = vset(all.max), factor = vset(static_cast<float>(grad_scale / all.sum)), one = vset(1.0f);
  const vf inverse_cap = vset(softcap > 0 ? 1.0f / softcap : 0.0f);
  each_vector_in_place(z, kept, [&](auto x) {
    const auto p = vmul(vexp(vsub(x, shift)), factor);
    if (softcap <= 0) return p;
    const auto ratio = vmul(x, inverse_cap);
    return vmul(p, vfnma(ratio, ratio, one));
  });
  each_vector_in_place(z + kept, vocab - kept, [&](auto e) { return vmul(e, factor); });
}

/// Returns the gradient at the target, whose capped logit was z_target.
inline float target_gradient(float z_target, const LogSumExp& all, float softcap, float grad_scale) {
  const double ratio = softcap > 0 ? static_cast<double>(z_target) / softcap : 0.0;
  const double p = __builtin_exp(static_cast<double>(z_target) - all.max) / all.sum;
  return static_cast<float>((p - 1.0) * (1.0 - ratio * ratio) * grad_scale);
}

inline float* logits_of(const CrossEntropy& a, int64_t r) {
  return static_cast<float*>(a.logits) + r * (a.stride != 0 ? a.stride : a.vocab);
}

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

inline float weight_of(const CrossEntropy& a, int64_t r) {
  return a.weights != nullptr ? a.weights[r] : 1.0f;
}

/// Number of rows in one task.
inline int64_t row_grain(int64_t vocab) { return vocab < 4096 ? 4096 / (vocab > 0 ? vocab : 1) : 1; }

inline void row(const CrossEntropy& a, int64_t r) {
  const int32_t target = a.targets[r];
  if (target == -100) return masked_row(a, r);
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

/// Returns the column of a row's target in the local part of the vocabulary; -1 if another rank has it.
inline int64_t own_target(const CrossEntropy& own, int64_t first_word, int64_t r) {
  const int64_t word = own.targets[r] - first_word;
  return own.targets[r] >= 0 && word >= 0 && word < own.vocab ? word : -1;
}

/// Like log_sum_exp, but leaves the logits unchanged.
inline LogSumExp log_sum_exp_of(const float* z, int64_t vocab, float softcap) {
  LogSumExp all = {-__builtin_inff(), 0};
  float block[kBlock];
  for (int64_t j = 0; j < vocab; j += kBlock) {
    const int64_t n = vocab - j < kBlock ? vocab - j : kBlock;
    __builtin_memcpy(block, z + j, static_cast<size_t>(n) * sizeof(float));
    const LogSumExp one = log_sum_exp(block, n, softcap);
    const float max = one.max > all.max ? one.max : all.max;
    all.sum = all.sum * __builtin_exp(static_cast<double>(all.max) - max) +
              one.sum * __builtin_exp(static_cast<double>(one.max) - max);
    all.max = max;
  }
  return all;
}

inline void statistics_row(const CrossEntropyStatistics& a, int64_t r) {
  const float* z = logits_of(a.own, r);
  const LogSumExp all = log_sum_exp_of(z, a.own.vocab, a.own.softcap);
  const int64_t target = own_target(a.own, a.first_word, r);
  float z_target = target >= 0 ? z[target] : 0.0f;
  if (target >= 0 && a.own.softcap > 0) cap_range(&z_target, 1, a.own.softcap);
  float* out = a.statistics + r * kRowStatistics;
  out[0] = all.max, out[1] = static_cast<float>(all.sum), out[2] = z_target;
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
