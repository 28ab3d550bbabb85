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

template <class To, class From>
void convert_between(const Convert& args, Stream& stream) {
  auto* y = static_cast<typename To::Type*>(args.y);
  const auto* x = static_cast<const typename From::Type*>(args.x);
  parallel_ranges(stream, args.n, kGrain, [=](int64_t begin, int64_t end) {
    int64_t i = begin;
    for (; i + kLanes <= end; i += kLanes) To::put(y + i, From::get(x + i));
    if (i < end) To::put_n(y + i, From::get_n(x + i, static_cast<int>(end - i)), static_cast<int>(end - i));
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
  parallel_ranges(stream, args.n, kGrain, [=](int64_t begin, int64_t end) {
    __builtin_memcpy(y + begin * bytes, x + begin * bytes, static_cast<size_t>((end - begin) * bytes));
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
