// Softmax cross entropy: one task per row of logits. The first pass goes block by block, so that the maximum
// and the sum of exponentials of a block come from one trip through memory; the second, if asked for, writes
// the gradient over the logits.
#include HWS_SIMD

#include "kernels/cpu/level.h"
#include "kernels/cpu/parallel.h"

namespace hawser::kernels::HWS_LEVEL {
namespace {

constexpr int64_t kBlock = 4096;  // elements; a multiple of every level's step
constexpr int kUnroll = 4;

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

inline float sum_of_exp(const float* z, int64_t n, float max) {
  const vf shift = vset(max);
  vf sum[kUnroll] = {vzero(), vzero(), vzero(), vzero()};
  int64_t j = 0;
  for (; j + kUnroll * kLanes <= n; j += kUnroll * kLanes) {
    for (int u = 0; u < kUnroll; ++u) sum[u] = vadd(sum[u], vexp(vsub(vload(z + j + u * kLanes), shift)));
  }
  for (; j + kLanes <= n; j += kLanes) sum[0] = vadd(sum[0], vexp(vsub(vload(z + j), shift)));
  if (j < n) {
    const int rest = static_cast<int>(n - j);
    const vf e = vexp(vsub(vload_n(z + j, rest), shift));
    sum[1] = vadd(sum[1], vselect_lt(viota(), vset(static_cast<float>(rest)), e, vzero()));
  }
  return vsum(vadd(vadd(sum[0], sum[1]), vadd(sum[2], sum[3])));
}

inline LogSumExp log_sum_exp(float* z, int64_t vocab, float softcap) {
  LogSumExp all = {0, 0};
  for (int64_t j = 0; j < vocab; j += kBlock) {
    const int64_t n = vocab - j < kBlock ? vocab - j : kBlock;
    if (softcap > 0) cap_range(z + j, n, softcap);
    const float block_max = max_of(z + j, n);
    const float max = j == 0 || block_max > all.max ? block_max : all.max;
    all.sum = all.sum * __builtin_exp(static_cast<double>(all.max) - max) + sum_of_exp(z + j, n, max);
    all.max = max;
  }
  return all;
}

/// z[j] = (exp(z[j] - max) / sum) * slope of the cap * scale; the target's one is subtracted by the caller's
/// row.
inline void gradient(float* z, int64_t vocab, int32_t target, const LogSumExp& all, float softcap,
                     float grad_scale) {
  const vf shift = vset(all.max), factor = vset(static_cast<float>(grad_scale / all.sum)), one = vset(1.0f);
  const vf inverse_cap = vset(softcap > 0 ? 1.0f / softcap : 0.0f);
  const float z_target = z[target];
  const auto grad = [&](vf x) {
    const vf p = vmul(vexp(vsub(x, shift)), factor);
    if (softcap <= 0) return p;
    const vf ratio = vmul(x, inverse_cap);
    return vmul(p, vfnma(ratio, ratio, one));
  };
  int64_t j = 0;
  for (; j + kLanes <= vocab; j += kLanes) vstore(z + j, grad(vload(z + j)));
  if (j < vocab) {
    const int rest = static_cast<int>(vocab - j);
    vstore_n(z + j, grad(vload_n(z + j, rest)), rest);
  }
  const double ratio = softcap > 0 ? static_cast<double>(z_target) / softcap : 0.0;
  const double p = __builtin_exp(static_cast<double>(z_target) - all.max) / all.sum;
  z[target] = static_cast<float>((p - 1.0) * (1.0 - ratio * ratio) * grad_scale);
}

inline void row(const CrossEntropy& a, int64_t r) {
  float* z = static_cast<float*>(a.logits) + r * (a.stride != 0 ? a.stride : a.vocab);
  const int32_t target = a.targets[r];
  if (target == -100) {
    a.losses[r] = 0;
    if (a.backward) {
      for (int64_t j = 0; j < a.vocab; ++j) z[j] = 0;
    } else if (a.softcap > 0) {
      cap_range(z, a.vocab, a.softcap);
    }
    return;
  }
  const LogSumExp all = log_sum_exp(z, a.vocab, a.softcap);
  const float weight = a.weights != nullptr ? a.weights[r] : 1.0f;
  const double loss = __builtin_log(all.sum) + (static_cast<double>(all.max) - z[target]);
  a.losses[r] = static_cast<float>(loss * weight);
  if (a.backward) gradient(z, a.vocab, target, all, a.softcap, *a.grad_scale * weight);
}

}  // namespace

void cross_entropy(const CrossEntropy& args, Stream& stream) {
  if (args.rows <= 0 || args.vocab <= 0) return;
  const int64_t grain = args.vocab < 4096 ? 4096 / args.vocab : 1;
  parallel_ranges(stream, args.rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) row(args, r);
  });
}

void soft_cap(const SoftCap& args, Stream& stream) {
  if (args.n <= 0 || !(args.softcap > 0)) return;
  parallel_ranges(stream, args.n, 8192,
                  [&](int64_t begin, int64_t end) { cap_range(args.x + begin, end - begin, args.softcap); });
}

}  // namespace hawser::kernels::HWS_LEVEL
