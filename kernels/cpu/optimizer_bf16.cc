// AdamW, SGD and Lion on all-bf16 state, in one pass over memory: like optimizer.cc, with stochastic rounding
// (kernels/include/stochastic_rounding.h) on stores. Random words are computed at once for 64 consecutive
// elements of the parameter, wherever the range is divided.
#include "kernels/cpu/level.h"
#include "kernels/cpu/optimizer_step.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/philox_lanes.h"
#include HWS_SIMD

namespace hawser::kernels::HWS_LEVEL {
namespace {

constexpr int64_t kGrain = 16384;
constexpr int kWords = 64;  ///< computed at once
static_assert(kWords % (4 * kBlocksSideBySide) == 0);

HWS_INLINE vwords load_words(const uint32_t* p) {
  vwords words;
  __builtin_memcpy(&words, p, sizeof(words));
  return words;
}

/// Sets words[i] to the word of element first + i; `first` is a multiple of kWords.
__attribute__((noinline)) void make_words(uint32_t* words, uint64_t key, uint64_t step, int64_t first) {
  for (int i = 0; i < kWords; i += 4 * kBlocksSideBySide) {
    PhiloxLanes x = counters(step, static_cast<uint64_t>((first + i) / 4));
    philox_rounds(x, key);
#pragma GCC unroll 2
    for (int v = 0; v < kPhiloxVectors; ++v) {
      const vwords halves[] = {interleaved_words(x.c[v], false), interleaved_words(x.c[v], true)};
      __builtin_memcpy(words + i + v * 2 * kLanes, halves, sizeof(halves));
    }
  }
}

/// Stores x in p[0..n), rounded with 16 random bits in each lane. The rounded value is exact in bf16, so
/// storing it does not round again.
HWS_INLINE void store_rounded(uint16_t* p, vf x, vwords random_bits, int n) {
  const vwords bits = (vwords)x;
  const vwords number = (vwords)((bits & 0x7fffffffu) <= 0x7f800000u);
  vstore_bf16_n(p, (vf)((((bits + random_bits) & 0xffff0000u) & number) | (bits & ~number)), n);
}

/// Calls body(i, n, words) for ranges of n <= kLanes elements from i on that cover [begin, end).
template <class Body>
HWS_INLINE void with_words(const RoundingRun& run, uint64_t step, int64_t begin, int64_t end, Body body) {
  uint32_t words[kWords + kLanes];  // the last vector may start anywhere
  __builtin_memset(words + kWords, 0, kLanes * sizeof(uint32_t));
  for (int64_t i = begin; i < end;) {
    const int64_t element = rounded_element(run, i), start = element / kWords * kWords;
    make_words(words, run.key, step, start);
    const int64_t made = start + kWords - element;
    const int64_t stop = i + rounded_together(run, i, made < end - i ? made : end - i);
    for (const uint32_t* word = words + (element - start); i < stop; i += kLanes, word += kLanes) {
      body(i, stop - i < kLanes ? static_cast<int>(stop - i) : kLanes, load_words(word));
    }
    i = stop;
  }
}

void adamw_range(const AdamWBf16& a, int64_t begin, int64_t end) {
  const AdamWConstants c(a);
  auto *weight = static_cast<uint16_t*>(a.weight), *m1 = static_cast<uint16_t*>(a.m),
       *m2 = static_cast<uint16_t*>(a.v);
  const auto* grad = static_cast<const uint16_t*>(a.grad);
  with_words(a.run, a.scalars->step, begin, end, [&](int64_t i, int n, vwords word) {
    vf w = vload_bf16_n(weight + i, n), m = vload_bf16_n(m1 + i, n), v = vload_bf16_n(m2 + i, n);
    adamw_step(c, vload_bf16_n(grad + i, n), w, m, v);
    store_rounded(weight + i, w, word & 0xffffu, n);
    store_rounded(m1 + i, m, word >> 16, n);
    store_rounded(m2 + i, v, (word ^ (word >> 16)) & 0xffffu, n);
  });
}

void sgd_range(const SgdBf16& a, int64_t begin, int64_t end) {
  const SgdConstants c(a);
  auto *weight = static_cast<uint16_t*>(a.weight), *momentum = static_cast<uint16_t*>(a.buf);
  const auto* grad = static_cast<const uint16_t*>(a.grad);
  with_words(a.run, a.scalars->step, begin, end, [&](int64_t i, int n, vwords word) {
    vf w = vload_bf16_n(weight + i, n), buf = c.has_momentum ? vload_bf16_n(momentum + i, n) : vzero();
    sgd_step(c, vload_bf16_n(grad + i, n), w, buf);
    store_rounded(weight + i, w, word & 0xffffu, n);
    if (c.has_momentum) store_rounded(momentum + i, buf, word >> 16, n);
  });
}

void lion_range(const LionBf16& a, int64_t begin, int64_t end) {
  const MeanConstants c(a);
  auto *weight = static_cast<uint16_t*>(a.weight), *momentum = static_cast<uint16_t*>(a.m);
  const auto* grad = static_cast<const uint16_t*>(a.grad);
  with_words(a.run, a.scalars->step, begin, end, [&](int64_t i, int n, vwords word) {
    vf w = vload_bf16_n(weight + i, n), m = vload_bf16_n(momentum + i, n);
    lion_step(c, vload_bf16_n(grad + i, n), w, m);
    store_rounded(weight + i, w, word & 0xffffu, n);
    store_rounded(momentum + i, m, word >> 16, n);
  });
}

}  // namespace

void adamw_bf16(const AdamWBf16& args, Stream& stream) {
  parallel_ranges(stream, args.n, kGrain, [&](int64_t begin, int64_t end) { adamw_range(args, begin, end); });
}

void sgd_bf16(const SgdBf16& args, Stream& stream) {
  parallel_ranges(stream, args.n, kGrain, [&](int64_t begin, int64_t end) { sgd_range(args, begin, end); });
}

void lion_bf16(const LionBf16& args, Stream& stream) {
  parallel_ranges(stream, args.n, kGrain, [&](int64_t begin, int64_t end) { lion_range(args, begin, end); });
}

}  // namespace hawser::kernels::HWS_LEVEL
