// Attention sinks: rescales the results of attention, and computes the addends of the sinks' gradients.
#include "kernels/include/attention_sinks.h"

#include HWS_SIMD

#include "kernels/cpu/level.h"
#include "kernels/cpu/parallel.h"

namespace hawser::kernels::baseline {
namespace {

int64_t row_grain(const SinkRows& s) {
  constexpr int64_t kGrain = 16384;  // approximate number of elements in a task
  const int64_t row = s.heads * s.value_dim;
  return row > 0 && row < kGrain ? kGrain / row : 1;
}

/// Calls body(row, head, index of its lse, index of its first output) for the heads of rows [begin, end).
template <class Body>
void each_head(const SinkRows& s, int64_t begin, int64_t end, const Body& body) {
  for (int64_t row = begin; row < end; ++row)
    for (int64_t h = 0; h < s.heads; ++h)
      body(row, h, (row / s.seq * s.heads + h) * s.seq + row % s.seq, row * s.o_stride + h * s.value_dim);
}

/// Adds the sink to the log-sum-exp. Returns the factor of the output.
float join(float* lse, float sink) {
  const double larger = *lse > sink ? *lse : sink;
  const double others = __builtin_exp(*lse - larger), sum = others + __builtin_exp(sink - larger);
  *lse = static_cast<float>(larger + __builtin_log(sum));
  return static_cast<float>(others / sum);
}

template <class T>
void scale(T* x, int64_t n, float factor) {
  for (int64_t j = 0; j < n; j += kLanes) {
    const int lanes = static_cast<int>(n - j < kLanes ? n - j : kLanes);
    store_n(x + j, vmul(vset(factor), load_n(x + j, lanes)), lanes);
  }
}

template <class T>
float dot(const T* x, const T* y, int64_t n) {
  vf sums = vzero();
  for (int64_t j = 0; j < n; j += kLanes) {
    const int lanes = static_cast<int>(n - j < kLanes ? n - j : kLanes);
    sums = vfma(load_n(x + j, lanes), load_n(y + j, lanes), sums);
  }
  float lane[kLanes];
  vstore(lane, sums);
  float sum = 0;
  for (int i = 0; i < kLanes; ++i) sum += lane[i];
  return sum;
}

}  // namespace

void sink_forward(const SinkForward& args, Stream& stream) {
  const SinkRows& s = args.s;
  parallel_ranges(stream, s.batch * s.seq, row_grain(s), [&](int64_t begin, int64_t end) {
    with_element(s.type, [&](auto element) {
      auto* const o = static_cast<decltype(element)*>(args.o);
      each_head(s, begin, end, [&](int64_t, int64_t h, int64_t lse, int64_t at) {
        if (s.sinks[h] == -__builtin_inff()) return;
        scale(o + at, s.value_dim, join(args.lse + lse, s.sinks[h]));
      });
    });
  });
}

void sink_backward(const SinkBackward& args, Stream& stream) {
  const SinkRows& s = args.s;
  parallel_ranges(stream, s.batch * s.seq, row_grain(s), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin * args.columns; i < end * args.columns; ++i) args.terms[i] = 0;
    with_element(s.type, [&](auto element) {
      using E = decltype(element);
      each_head(s, begin, end, [&](int64_t row, int64_t h, int64_t lse, int64_t at) {
        if (s.sinks[h] == -__builtin_inff()) return;
        const float share =
            static_cast<float>(__builtin_exp(static_cast<double>(s.sinks[h]) - args.lse[lse]));
        args.terms[row * args.columns + args.first + h] =
            -share *
            dot(static_cast<const E*>(args.dout) + at, static_cast<const E*>(args.o) + at, s.value_dim);
      });
    });
  });
}

}  // namespace hawser::kernels::baseline
