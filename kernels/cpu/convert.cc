// Converts between fp32, bfloat16 and half, and adds scaled fp32.
#include "kernels/cpu/level.h"
#include "kernels/cpu/parallel.h"
#include HWS_SIMD

namespace hawser::kernels::HWS_LEVEL {
namespace {

constexpr int64_t kGrain = 16384;

/// Converts n consecutive elements. Only scaled_run reads the arguments after n.
using Run = void (*)(void* y, const void* x, int64_t n, float scale, bool adds);

template <class To, class From>
void convert_run(void* to, const void* from, int64_t n, float, bool) {
  auto* const y = static_cast<To*>(to);
  const auto* const x = static_cast<const From*>(from);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(y + i, load(x + i));
  if (i < n) store_n(y + i, load_n(x + i, static_cast<int>(n - i)), static_cast<int>(n - i));
}

/// y = round(y + scale x), or y = round(scale x) unless `adds`.
template <class To>
void scaled_run(void* to, const void* from, int64_t n, float scale, bool adds) {
  auto* const y = static_cast<To*>(to);
  const auto* const x = static_cast<const float*>(from);
  const vf s = vset(scale);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const vf value = vmul(s, vload(x + i));
    store(y + i, adds ? vadd(load(y + i), value) : value);
  }
  const int rest = static_cast<int>(n - i);
  if (rest == 0) return;
  const vf value = vmul(s, vload_n(x + i, rest));
  store_n(y + i, adds ? vadd(load_n(y + i, rest), value) : value, rest);
}

template <class Element>
void copy_run(void* y, const void* x, int64_t n, float, bool) {
  __builtin_memcpy(y, x, static_cast<size_t>(n) * sizeof(Element));
}

Run run_of(const Convert& args) {
  if (args.accumulate || args.scale != 1)
    return with_element(args.y_type, [](auto y) -> Run { return scaled_run<decltype(y)>; });
  if (args.y_type == args.x_type) return args.y_type == DType::kF32 ? copy_run<float> : copy_run<uint16_t>;
  return with_element(args.y_type, [&](auto y) -> Run {
    return with_element(args.x_type, [](auto x) -> Run { return convert_run<decltype(y), decltype(x)>; });
  });
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
