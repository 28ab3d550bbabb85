// Passes over one row of logits, for the softmax cross entropy: statistics of its exponentials, and its
// gradient.
#pragma once

#include HWS_SIMD

#include "kernels/cpu/level.h"

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

inline float weight_of(const CrossEntropy& a, int64_t r) {
  return a.weights != nullptr ? a.weights[r] : 1.0f;
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

}  // namespace
}  // namespace hawser::kernels::HWS_LEVEL
