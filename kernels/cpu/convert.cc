// Converts between fp32, bfloat16 and half, and adds scaled fp32.
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

/// Converts n consecutive elements. Only scaled_run reads the arguments after n.
using Run = void (*)(void* y, const void* x, int64_t n, float scale, bool adds);

template <class To, class From>
void convert_run(void* to, const void* from, int64_t n, float, bool) {
  auto* const y = static_cast<typename To::Type*>(to);
  const auto* const x = static_cast<const typename From::Type*>(from);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) To::put(y + i, From::get(x + i));
  if (i < n) To::put_n(y + i, From::get_n(x + i, static_cast<int>(n - i)), static_cast<int>(n - i));
}

/// y = round(y + scale x), or y = round(scale x) unless `adds`.
template <class To>
void scaled_run(void* to, const void* from, int64_t n, float scale, bool adds) {
  auto* const y = static_cast<typename To::Type*>(to);
  const auto* const x = static_cast<const float*>(from);
  const vf s = vset(scale);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const vf value = vmul(s, vload(x + i));
    To::put(y + i, adds ? vadd(To::get(y + i), value) : value);
  }
  const int rest = static_cast<int>(n - i);
  if (rest == 0) return;
  const vf value = vmul(s, vload_n(x + i, rest));
  To::put_n(y + i, adds ? vadd(To::get_n(y + i, rest), value) : value, rest);
}

template <class Element>
void copy_run(void* y, const void* x, int64_t n, float, bool) {
  __builtin_memcpy(y, x, static_cast<size_t>(n) * sizeof(Element));
}

template <class To>
Run run_to(DType from) {
  if (from == DType::kF32) return convert_run<To, AsF32>;
  return from == DType::kBf16 ? convert_run<To, AsBf16> : convert_run<To, AsF16>;
}

Run run_of(const Convert& args) {
  if (args.accumulate || args.scale != 1)
    return args.y_type == DType::kF32 ? scaled_run<AsF32> : scaled_run<AsBf16>;
  if (args.y_type == args.x_type) return args.y_type == DType::kF32 ? copy_run<float> : copy_run<uint16_t>;
  if (args.y_type == DType::kF32) return run_to<AsF32>(args.x_type);
  return args.y_type == DType::kBf16 ? run_to<AsBf16>(args.x_type) : run_to<AsF16>(args.x_type);
}

int64_t element_bytes(DType type) { return type == DType::kF32 ? 4 : 2; }

}  // namespace

void convert(const Convert& args, Stream& stream) {
  if (args.y == args.x && args.y_type == args.x_type && args.scale == 1) return;
  const Run run = run_of(args);
  auto* const y = static_cast<char*>(args.y);
  const auto* const x = static_cast<const char*>(args.x);
  const int64_t y_bytes = element_bytes(args.y_type), x_bytes = element_bytes(args.x_type);
  parallel_ranges(stream, args.rows * args.n, kGrain, [=](int64_t begin, int64_t end) {
    while (begin < end) {
      const int64_t row = begin / args.n, column = begin - row * args.n;
      const int64_t rest = args.n - column, count = rest < end - begin ? rest : end - begin;
      run(y + (row * args.y_stride + column) * y_bytes, x + (row * args.x_stride + column) * x_bytes, count,
          args.scale, args.accumulate);
      begin += count;
    }
  });
}

}  // namespace hawser::kernels::HWS_LEVEL
