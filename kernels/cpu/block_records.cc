// Encodes and decodes records of integers, record by record.
#include "kernels/cpu/block_record.h"
#include "kernels/cpu/level.h"
#include "kernels/cpu/parallel.h"
#include HWS_SIMD

namespace hawser::kernels::HWS_LEVEL {
namespace {

constexpr int64_t kGrain = 256;  // records in a task
/// Bytes ahead of which memory is prefetched: a core that converts reads too few lines at a time by itself.
constexpr int64_t kAhead = 2048;

/// Prefetches the numbers kAhead behind x; `write`: for a write.
template <int write, class T>
HWS_INLINE void prefetch_numbers(const T* x) {
  for (unsigned at = 0; at < sizeof(T) * kIntBlock; at += 64)
    __builtin_prefetch(reinterpret_cast<const char*>(x) + kAhead + at, write);
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
    uint8_t* const record = static_cast<uint8_t*>(a.records) + block * Codes::kBytes;
    prefetch_numbers<0>(x);
    const int n = count_of(a.n, block);
    if (n == kIntBlock) {
      encode_record<Codes>(record, x);
    } else {
      float filled[kIntBlock] = {};
      for (int i = 0; i < n; ++i) filled[i] = load_scalar(x + i);
      encode_record<Codes>(record, filled);
    }
  }
}

template <class Codes, class T>
void decode(const BlockDecode& a, int64_t begin, int64_t end) {
  for (int64_t block = begin; block < end; ++block) {
    T* const y = static_cast<T*>(a.y) + block * kIntBlock;
    const uint8_t* const record = static_cast<const uint8_t*>(a.records) + block * Codes::kBytes;
    prefetch_numbers<1>(y);
    __builtin_prefetch(record + kAhead / 2);
    const int n = count_of(a.n, block);
    if (n == kIntBlock) {
      decode_record<Codes>(y, record);
    } else {
      float all[kIntBlock];
      decode_record<Codes>(all, record);
      for (int i = 0; i < n; ++i) store_scalar(y + i, all[i]);
    }
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
