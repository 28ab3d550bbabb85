// Encodes and decodes records of integers, record by record.
#include "kernels/cpu/block_record.h"
#include "kernels/cpu/level.h"
#include "kernels/cpu/parallel.h"
#include HWS_SIMD

namespace hawser::kernels::HWS_LEVEL {
namespace {

constexpr int64_t kGrain = 256;  // records in a task

HWS_INLINE void put(float* y, const float* x, int n) {
  for (int i = 0; i < n; ++i) y[i] = x[i];
}
template <class Narrow>
HWS_INLINE void put(Narrow* y, const float* x, int n) {
  if (n == kIntBlock) {
    for (int i = 0; i < kIntBlock; i += kLanes) store(y + i, vload(x + i));
  } else {
    for (int i = 0; i < n; ++i) store_scalar(y + i, x[i]);
  }
}
/// Where a whole record can be decoded to: y itself, if it has f32.
HWS_INLINE float* whole_record(float* y, float*) { return y; }
template <class Narrow>
HWS_INLINE float* whole_record(Narrow*, float* scratch) {
  return scratch;
}

/// Returns x[0..n) as f32, with zeros up to 64: x itself, or a copy in `to`.
HWS_INLINE const float* numbers(float* to, const float* x, int n) {
  if (n == kIntBlock) return x;
  for (int i = 0; i < kIntBlock; ++i) to[i] = i < n ? x[i] : 0.0f;
  return to;
}
template <class Narrow>
HWS_INLINE const float* numbers(float* to, const Narrow* x, int n) {
  if (n == kIntBlock) {
    for (int i = 0; i < kIntBlock; ++i) to[i] = load_scalar(x + i);
  } else {
    for (int i = 0; i < kIntBlock; ++i) to[i] = i < n ? load_scalar(x + i) : 0.0f;
  }
  return to;
}

/// Returns the numbers of record `block`: 64, or fewer in the last.
HWS_INLINE int count_of(int64_t n, int64_t block) {
  const int64_t rest = n - block * kIntBlock;
  return static_cast<int>(rest < kIntBlock ? rest : kIntBlock);
}

template <class Codes, class T>
void encode(const BlockEncode& a, int64_t begin, int64_t end) {
  for (int64_t block = begin; block < end; ++block) {
    const T* const x = static_cast<const T*>(a.x) + block * kIntBlock;
    const int n = count_of(a.n, block);
    float from[kIntBlock];
    encode_record<Codes>(static_cast<uint8_t*>(a.records) + block * Codes::kBytes, numbers(from, x, n));
  }
}

template <class Codes, class T>
void decode(const BlockDecode& a, int64_t begin, int64_t end) {
  for (int64_t block = begin; block < end; ++block) {
    T* const y = static_cast<T*>(a.y) + block * kIntBlock;
    const int n = count_of(a.n, block);
    float scratch[kIntBlock];
    float* const to = n == kIntBlock ? whole_record(y, scratch) : scratch;
    decode_record<Codes>(to, static_cast<const uint8_t*>(a.records) + block * Codes::kBytes);
    if (static_cast<void*>(to) != y) put(y, to, n);
  }
}

template <class Codes>
void encode(const BlockEncode& a, int64_t begin, int64_t end) {
  with_element(a.x_type, [&](auto element) { encode<Codes, decltype(element)>(a, begin, end); });
}

template <class Codes>
void decode(const BlockDecode& a, int64_t begin, int64_t end) {
  with_element(a.y_type, [&](auto element) { decode<Codes, decltype(element)>(a, begin, end); });
}

}  // namespace

void block_encode(const BlockEncode& args, Stream& stream) {
  parallel_ranges(stream, (args.n + kIntBlock - 1) / kIntBlock, kGrain, [&](int64_t begin, int64_t end) {
    args.type == DType::kI8Block ? encode<I8Codes>(args, begin, end) : encode<I4Codes>(args, begin, end);
  });
}

void block_decode(const BlockDecode& args, Stream& stream) {
  parallel_ranges(stream, (args.n + kIntBlock - 1) / kIntBlock, kGrain, [&](int64_t begin, int64_t end) {
    args.type == DType::kI8Block ? decode<I8Codes>(args, begin, end) : decode<I4Codes>(args, begin, end);
  });
}

}  // namespace hawser::kernels::HWS_LEVEL
