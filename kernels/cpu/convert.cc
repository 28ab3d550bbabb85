// Conversion between fp32, bfloat16 and half.
#include "kernels/cpu/level.h"
#include "kernels/cpu/parallel.h"
#include HWS_SIMD

namespace hawser::kernels::HWS_LEVEL {
namespace {

constexpr int64_t kGrain = 16384;

// Access by element type; bfloat16 and half are both stored as uint16_t.
struct AsF32 {
  using Type = float;
  static HWS_INLINE vf get(const Type* p) { return vload(p); }
  static HWS_INLINE vf get_n(const Type* p, int n) { return vload_n(p, n); }
  static HWS_INLINE void put(Type* p, vf x) { vstore(p, x); }
  static HWS_INLINE void put_n(Type* p, vf x, int n) { vstore_n(p, x, n); }
};
struct AsBf16 {
  using Type = uint16_t;
  static HWS_INLINE vf get(const Type* p) { return vload_bf16(p); }
  static HWS_INLINE vf get_n(const Type* p, int n) { return vload_bf16_n(p, n); }
  static HWS_INLINE void put(Type* p, vf x) { vstore_bf16(p, x); }
  static HWS_INLINE void put_n(Type* p, vf x, int n) { vstore_bf16_n(p, x, n); }
};
struct AsF16 {
  using Type = uint16_t;
  static HWS_INLINE vf get(const Type* p) { return vload_f16(p); }
  static HWS_INLINE vf get_n(const Type* p, int n) { return vload_f16_n(p, n); }
  static HWS_INLINE void put(Type* p, vf x) { vstore_f16(p, x); }
  static HWS_INLINE void put_n(Type* p, vf x, int n) { vstore_f16_n(p, x, n); }
};

/// Calls fn(offset in y, offset in x, elements) for runs of all rows.
template <class Fn>
void for_runs(const Convert& args, Stream& stream, Fn fn) {
  parallel_ranges(stream, args.rows * args.n, kGrain, [=](int64_t begin, int64_t end) {
    while (begin < end) {
      const int64_t row = begin / args.n, column = begin - row * args.n;
      const int64_t rest = args.n - column, count = rest < end - begin ? rest : end - begin;
      fn(row * args.y_stride + column, row * args.x_stride + column, count);
      begin += count;
    }
  });
}

template <class To, class From>
void convert_between(const Convert& args, Stream& stream) {
  auto* const y0 = static_cast<typename To::Type*>(args.y);
  const auto* const x0 = static_cast<const typename From::Type*>(args.x);
  for_runs(args, stream, [=](int64_t at_y, int64_t at_x, int64_t n) {
    auto* const y = y0 + at_y;
    const auto* const x = x0 + at_x;
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) To::put(y + i, From::get(x + i));
    if (i < n) To::put_n(y + i, From::get_n(x + i, static_cast<int>(n - i)), static_cast<int>(n - i));
  });
}

/// y = round(y + x).
void add_rounded(const Convert& args, Stream& stream) {
  auto* y = static_cast<uint16_t*>(args.y);
  const auto* x = static_cast<const float*>(args.x);
  parallel_ranges(stream, args.n, kGrain, [=](int64_t begin, int64_t end) {
    int64_t i = begin;
    for (; i + kLanes <= end; i += kLanes) vstore_bf16(y + i, vadd(vload_bf16(y + i), vload(x + i)));
    const int n = static_cast<int>(end - i);
    if (n > 0) vstore_bf16_n(y + i, vadd(vload_bf16_n(y + i, n), vload_n(x + i, n)), n);
  });
}

void copy(const Convert& args, int64_t bytes, Stream& stream) {
  if (args.y == args.x) return;
  auto* y = static_cast<char*>(args.y);
  const auto* x = static_cast<const char*>(args.x);
  for_runs(args, stream, [=](int64_t at_y, int64_t at_x, int64_t n) {
    __builtin_memcpy(y + at_y * bytes, x + at_x * bytes, static_cast<size_t>(n * bytes));
  });
}

template <class To>
void convert_to(const Convert& args, Stream& stream) {
  if (args.x_type == DType::kF32) {
    convert_between<To, AsF32>(args, stream);
  } else if (args.x_type == DType::kBf16) {
    convert_between<To, AsBf16>(args, stream);
  } else {
    convert_between<To, AsF16>(args, stream);
  }
}

}  // namespace

void convert(const Convert& args, Stream& stream) {
  if (args.accumulate) {
    add_rounded(args, stream);
  } else if (args.y_type == args.x_type) {
    copy(args, args.y_type == DType::kF32 ? 4 : 2, stream);
  } else if (args.y_type == DType::kF32) {
    convert_to<AsF32>(args, stream);
  } else if (args.y_type == DType::kBf16) {
    convert_to<AsBf16>(args, stream);
  } else {
    convert_to<AsF16>(args, stream);
  }
}

}  // namespace hawser::kernels::HWS_LEVEL
