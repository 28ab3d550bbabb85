// The largest magnitude of a tensor, and its rounding to numbers of fp8. Numbers pass through a buffer of
// f32, as those of records do, so that one loop serves both formats and all types.
#include "kernels/include/fp8_round.h"
#include "kernels/cpu/level.h"
#include "kernels/cpu/parallel.h"
#include HWS_SIMD

namespace hawser::kernels::HWS_LEVEL {
namespace {

constexpr int64_t kGrain = 16384;  // numbers in a task
constexpr int kBlock = static_cast<int>(kFp8Block);

typedef uint32_t vw __attribute__((vector_size(sizeof(vf))));

HWS_INLINE vw splat(uint32_t x) { return vw{} + x; }
HWS_INLINE vw choose(vw mask, vw x, vw y) { return (mask & x) | (~mask & y); }

/// Rounds x[0..128) to y[0..128), which may be x.
struct Rounding {
  vf down, up, most;
  uint32_t least, shift;

  Rounding(const Fp8Format& f, uint32_t maximum, int32_t margin) {
    const int32_t e = fp8_exponent(f, maximum, margin);
    const auto code = static_cast<uint32_t>(e == f.largest_exponent ? f.code_at_largest : f.largest_code);
    shift = static_cast<uint32_t>(23 - f.fraction_bits);
    least = static_cast<uint32_t>(128 - f.bias) << 23;
    down = vset(bits_float(static_cast<uint32_t>(254 - e) << 23));
    up = vset(bits_float(static_cast<uint32_t>(e) << 23));
    most = vset(bits_float((code << shift) + (static_cast<uint32_t>(127 - f.bias) << 23)));
  }

  /// With a number's own exponent E, or the least normal one of the format, 2^(E + 23 - fraction) has the
  /// unit of the code as its last bit, so that adding and subtracting it rounds.
  HWS_NOINLINE void block(float* y, const float* x) const {
#pragma GCC unroll 2
    for (int i = 0; i < kBlock; i += kLanes) {
      const vf number = vload(x + i), size = vabs(number);
      const vf scaled = vmin(vmul(size, down), most);
      const vw own = (vw)vmax_bits((vf)((vw)scaled & 0x7f800000u), (vf)splat(least));
      const vf unit_last = (vf)(own + (shift << 23));
      vw bits = (vw)vmul(vsub(vadd(scaled, unit_last), unit_last), up) | ((vw)number & 0x80000000u);
      bits = choose((vw)((vw)size > splat(0x7f7fffffu)), splat(0x7fc00000u), bits);
      vstore(y + i, (vf)bits);
    }
  }
};

/// Loads up to 128 numbers; the rest are zeros.
template <class T>
HWS_INLINE void load_block(float* to, const T* x, int n) {
  if (n == kBlock) {
    for (int i = 0; i < kBlock; i += kLanes) vstore(to + i, load(x + i));
  } else {
    for (int i = 0; i < kBlock; ++i) to[i] = i < n ? load_scalar(x + i) : 0.0f;
  }
}

/// Calls body(x, row, column, count) for blocks of up to 128 numbers of rows [begin, end).
template <class Body>
HWS_INLINE void each_block(int64_t n, int64_t begin, int64_t end, const Body& body) {
  for (int64_t row = begin; row < end; ++row)
    for (int64_t column = 0; column < n; column += kBlock)
      body(row, column, static_cast<int>(n - column < kBlock ? n - column : kBlock));
}

template <class T>
uint32_t maximum_of(const Fp8Maximum& a, int64_t begin, int64_t end) {
  vf most = vzero();
  each_block(a.n, begin, end, [&](int64_t row, int64_t column, int count) {
    float numbers[kBlock];
    load_block(numbers, static_cast<const T*>(a.x) + row * a.stride + column, count);
    for (int i = 0; i < kBlock; i += kLanes) {
      const vw size = (vw)vabs(vload(numbers + i));
      most = vmax_bits(most, (vf)(size & (vw)(size < splat(0x7f800000u))));
    }
  });
  return static_cast<uint32_t>(vhmax_bits(most));
}

template <class T>
void round(const Fp8Round& a, const Rounding& rounding, int64_t begin, int64_t end) {
  each_block(a.n, begin, end, [&](int64_t row, int64_t column, int count) {
    float numbers[kBlock];
    load_block(numbers, static_cast<const T*>(a.x) + row * a.x_stride + column, count);
    rounding.block(numbers, numbers);
    uint16_t* const y = a.y + row * a.y_stride + column;
    uint16_t narrow[kBlock];
    uint16_t* const to = count == kBlock ? y : narrow;
    for (int i = 0; i < kBlock; i += kLanes) vstore_bf16(to + i, vload(numbers + i));
    if (count < kBlock) __builtin_memcpy(y, narrow, static_cast<size_t>(count) * sizeof *y);
  });
}

/// Rows in a task. They depend on sizes alone.
HWS_INLINE int64_t rows_of_task(int64_t n) { return n < kGrain ? kGrain / (n > 0 ? n : 1) : 1; }

}  // namespace

/// Floats that are not negative have the order of their bits, so tasks meet in an atomic maximum of integers.
void fp8_maximum(const Fp8Maximum& args, Stream& stream) {
  auto* const bits = reinterpret_cast<uint32_t*>(args.maximum);
  if (!args.accumulate) *bits = 0;
  const int64_t rows = args.end != nullptr ? *args.end : args.rows;
  parallel_ranges(stream, rows, rows_of_task(args.n), [&](int64_t begin, int64_t end) {
    uint32_t most = 0;
    with_element(args.x_type, [&](auto element) { most = maximum_of<decltype(element)>(args, begin, end); });
    uint32_t seen = __atomic_load_n(bits, __ATOMIC_RELAXED);
    while (seen < most &&
           !__atomic_compare_exchange_n(bits, &seen, most, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
  });
}

void fp8_round(const Fp8Round& args, Stream& stream) {
  const Rounding rounding(fp8_format(args.type), float_bits(*args.maximum), args.margin);
  const int64_t rows = args.end != nullptr ? *args.end : args.rows;
  parallel_ranges(stream, rows, rows_of_task(args.n), [&](int64_t begin, int64_t end) {
    with_element(args.x_type, [&](auto element) { round<decltype(element)>(args, rounding, begin, end); });
  });
}

}  // namespace hawser::kernels::HWS_LEVEL
