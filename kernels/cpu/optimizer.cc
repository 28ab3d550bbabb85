// AdamW, SGD and Lion, in one pass over memory. Tails use the same vector arithmetic as the body, so results
// do not depend on how a parameter is divided into shards or ranges.
#include "kernels/cpu/level.h"
#include "kernels/cpu/optimizer_step.h"
#include "kernels/cpu/parallel.h"
#include HWS_SIMD

namespace hawser::kernels::HWS_LEVEL {
namespace {

constexpr int64_t kGrain = 16384;
constexpr int64_t kStreamedElements = 1 << 20;  ///< their state is 16 MiB

/// Updates n elements from i on; returns the new weights.
HWS_INLINE vf adamw_vector(const AdamW& a, const AdamWConstants& c, int64_t i, int n) {
  vf w = vload_n(a.weight + i, n), m = vload_n(a.m + i, n), v = vload_n(a.v + i, n);
  adamw_step(c, vload_n(a.grad + i, n), w, m, v);
  vstore_n(a.weight + i, w, n);
  vstore_n(a.m + i, m, n);
  vstore_n(a.v + i, v, n);
  return w;
}

/// Updates kLanes elements from i on; returns the new weights.
HWS_INLINE vf adamw_vector(const AdamW& a, const AdamWConstants& c, int64_t i) {
  vf w = vload(a.weight + i), m = vload(a.m + i), v = vload(a.v + i);
  adamw_step(c, vload(a.grad + i), w, m, v);
  vstore(a.weight + i, w);
  vstore(a.m + i, m);
  vstore(a.v + i, v);
  return w;
}

/// Copy is the type of the rounded copy, or float if there is none.
template <class Copy>
void adamw_range(const AdamW& a, int64_t begin, int64_t end) {
  constexpr bool kCopy = !__is_same(Copy, float);
  const AdamWConstants c(a);
  auto* copy = static_cast<Copy*>(a.copy);
  int64_t i = begin;
  for (; i + kLanes <= end; i += kLanes) {
    const vf w = adamw_vector(a, c, i);
    if constexpr (kCopy) store(copy + i, w);
  }
  if (i == end) return;
  const int n = static_cast<int>(end - i);
  const vf w = adamw_vector(a, c, i, n);
  if constexpr (kCopy) store_n(copy + i, w, n);
}

/// Updates a range and stores the copy past the caches, a line at a time, as far as there are whole lines.
template <class Copy>
void adamw_range_streamed(const AdamW& a, int64_t begin, int64_t end) {
  const AdamWConstants c(a);
  auto* copy = static_cast<Copy*>(a.copy);
  int64_t i = begin;
  for (; i + 2 * kLanes <= end; i += 2 * kLanes) {
    const vf first = adamw_vector(a, c, i), second = adamw_vector(a, c, i + kLanes);
    vstream(copy + i, first, second);
  }
  vstream_end();
  adamw_range<Copy>(a, i, end);
}

/// True if the copy consists of whole cache lines, and so much state passes through the caches that the copy
/// would be evicted anyway.
inline bool streams_copy(const AdamW& a) {
  return a.n >= kStreamedElements && (reinterpret_cast<uintptr_t>(a.copy) & 63) == 0;
}

template <class Copy>
void sgd_range(const Sgd& a, int64_t begin, int64_t end) {
  const SgdConstants c(a);
  auto* copy = static_cast<Copy*>(a.copy);
  for (int64_t i = begin; i < end; i += kLanes) {
    const int n = end - i < kLanes ? static_cast<int>(end - i) : kLanes;
    vf w = vload_n(a.weight + i, n), buf = c.has_momentum ? vload_n(a.buf + i, n) : vzero();
    sgd_step(c, vload_n(a.grad + i, n), w, buf);
    vstore_n(a.weight + i, w, n);
    if (c.has_momentum) vstore_n(a.buf + i, buf, n);
    if constexpr (!__is_same(Copy, float)) store_n(copy + i, w, n);
  }
}

template <class Copy>
void lion_range(const Lion& a, int64_t begin, int64_t end) {
  const MeanConstants c(a);
  auto* copy = static_cast<Copy*>(a.copy);
  for (int64_t i = begin; i < end; i += kLanes) {
    const int n = end - i < kLanes ? static_cast<int>(end - i) : kLanes;
    vf w = vload_n(a.weight + i, n), m = vload_n(a.m + i, n);
    lion_step(c, vload_n(a.grad + i, n), w, m);
    vstore_n(a.weight + i, w, n);
    vstore_n(a.m + i, m, n);
    if constexpr (!__is_same(Copy, float)) store_n(copy + i, w, n);
  }
}

/// Returns the type of the rounded copy; f32 if there is none.
template <class Args>
DType copied_as(const Args& a) {
  return a.copy != nullptr ? a.copy_type : DType::kF32;
}

}  // namespace

void adamw(const AdamW& args, Stream& stream) {
  const bool streamed = args.copy != nullptr && streams_copy(args);
  parallel_ranges(stream, args.n, kGrain, [&](int64_t begin, int64_t end) {
    with_element(copied_as(args), [&](auto element) {
      using Copy = decltype(element);
      streamed ? adamw_range_streamed<Copy>(args, begin, end) : adamw_range<Copy>(args, begin, end);
    });
  });
}

void sgd(const Sgd& args, Stream& stream) {
  parallel_ranges(stream, args.n, kGrain, [&](int64_t begin, int64_t end) {
    with_element(copied_as(args), [&](auto element) { sgd_range<decltype(element)>(args, begin, end); });
  });
}

void lion(const Lion& args, Stream& stream) {
  parallel_ranges(stream, args.n, kGrain, [&](int64_t begin, int64_t end) {
    with_element(copied_as(args), [&](auto element) { lion_range<decltype(element)>(args, begin, end); });
  });
}

}  // namespace hawser::kernels::HWS_LEVEL
