// AdamW, SGD and Lion on all-bf16 state, in one pass over memory, with the random words of
// kernels/cpu/optimizer_bf16.cc; optimizer_step.h has the arithmetic.
#include "kernels/cuda/elements.h"
#include "kernels/cuda/optimizer_step.h"
#include "kernels/cuda/table.h"

namespace hawser::kernels::cuda {
namespace {

/// Sets words[k] to the word of the range's element i + k. A Philox block serves four consecutive elements.
template <int N>
__device__ __forceinline__ void rounding_words_at(uint32_t* words, const RoundingRun& run, uint64_t step,
                                                  int64_t i) {
  int64_t element = rounded_element(run, i), left = rounded_together(run, i, N);
  PhiloxBlock block = rounding_words(run.key, step, static_cast<uint64_t>(element / 4));
#pragma unroll
  for (int k = 0; k < N; ++k) {
    const bool jumps = left == 0;
    if (jumps) element += run.stride - run.width, left = run.width;
    const int at = static_cast<int>(element % 4);
    if (jumps || (k > 0 && at == 0))
      block = rounding_words(run.key, step, static_cast<uint64_t>(element / 4));
    words[k] = at == 0 ? block.v[0] : at == 1 ? block.v[1] : at == 2 ? block.v[2] : block.v[3];
    ++element, --left;
  }
}

/// Stores x in p[0..N), rounded by the words' bits for this use; p is aligned as for store.
template <int N>
__device__ __forceinline__ void store_rounded(void* array, int64_t i, const float* x, const uint32_t* words,
                                              RoundingUse use) {
  float exact[N];  // exact in bf16, so storing does not round again
#pragma unroll
  for (int k = 0; k < N; ++k) {
    const uint16_t rounded = round_stochastically(__float_as_uint(x[k]), rounding_bits(words[k], use));
    exact[k] = __uint_as_float(static_cast<uint32_t>(rounded) << 16);
  }
  store<N>(static_cast<bf16*>(array) + i, exact);
}

struct AdamWBf16Step {
  AdamWBf16 a;

  template <int N>
  __device__ void at(int64_t i) const {
    const OptimizerScalars s = *a.scalars;
    uint32_t words[N];
    rounding_words_at<N>(words, a.run, s.step, i);
    float w[N], m[N], v[N], grad[N];
    load<N>(w, static_cast<const bf16*>(a.weight) + i);
    load<N>(m, static_cast<const bf16*>(a.m) + i);
    load<N>(v, static_cast<const bf16*>(a.v) + i);
    load<N>(grad, static_cast<const bf16*>(a.grad) + i);
    adamw_step<N>(a, s, grad, w, m, v);
    store_rounded<N>(a.weight, i, w, words, RoundingUse::kWeight);
    store_rounded<N>(a.m, i, m, words, RoundingUse::kMoment1);
    store_rounded<N>(a.v, i, v, words, RoundingUse::kMoment2);
  }
};

struct SgdBf16Step {
  SgdBf16 a;

  template <int N>
  __device__ void at(int64_t i) const {
    const OptimizerScalars s = *a.scalars;
    uint32_t words[N];
    rounding_words_at<N>(words, a.run, s.step, i);
    float w[N], buf[N], grad[N];
    load<N>(w, static_cast<const bf16*>(a.weight) + i);
    load<N>(grad, static_cast<const bf16*>(a.grad) + i);
    if (a.buf != nullptr) load<N>(buf, static_cast<const bf16*>(a.buf) + i);
    sgd_step<N>(a, s, grad, w, buf);
    store_rounded<N>(a.weight, i, w, words, RoundingUse::kWeight);
    if (a.buf != nullptr) store_rounded<N>(a.buf, i, buf, words, RoundingUse::kMoment1);
  }
};

struct LionBf16Step {
  LionBf16 a;

  template <int N>
  __device__ void at(int64_t i) const {
    const OptimizerScalars s = *a.scalars;
    uint32_t words[N];
    rounding_words_at<N>(words, a.run, s.step, i);
    float w[N], m[N], grad[N];
    load<N>(w, static_cast<const bf16*>(a.weight) + i);
    load<N>(m, static_cast<const bf16*>(a.m) + i);
    load<N>(grad, static_cast<const bf16*>(a.grad) + i);
    lion_step<N>(a, s, grad, w, m);
    store_rounded<N>(a.weight, i, w, words, RoundingUse::kWeight);
    store_rounded<N>(a.m, i, m, words, RoundingUse::kMoment1);
  }
};

}  // namespace

void adamw_bf16(const AdamWBf16& args, Stream& stream) {
  const bool wide = all_wide({args.weight, args.m, args.v, args.grad});
  for_each_element(cuda_stream(stream), "adamw_bf16", args.n, wide, AdamWBf16Step{args});
}

void sgd_bf16(const SgdBf16& args, Stream& stream) {
  const bool wide = all_wide({args.weight, args.buf, args.grad});
  for_each_element(cuda_stream(stream), "sgd_bf16", args.n, wide, SgdBf16Step{args});
}

void lion_bf16(const LionBf16& args, Stream& stream) {
  const bool wide = all_wide({args.weight, args.m, args.grad});
  for_each_element(cuda_stream(stream), "lion_bf16", args.n, wide, LionBf16Step{args});
}

}  // namespace hawser::kernels::cuda
