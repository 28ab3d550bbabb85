// Finds the largest magnitude of a tensor, and rounds a tensor to fp8 numbers, as a whole or in tiles.
// Numbers pass through a buffer of f32, as those of records do, so that one loop serves both formats and all
// types.
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

/// Factors to codes and back for a maximum, and the number of the largest code.
struct Scale {
  float down, up, most;

  Scale(const Fp8Format& f, uint32_t maximum, int32_t margin) {
    const int32_t e = fp8_exponent(f, maximum, margin);
    const auto code = static_cast<uint32_t>(e == f.largest_exponent ? f.code_at_largest : f.largest_code);
    down = bits_float(static_cast<uint32_t>(254 - e) << 23);
    up = bits_float(static_cast<uint32_t>(e) << 23);
    most = bits_float((code << (23 - f.fraction_bits)) + (static_cast<uint32_t>(127 - f.bias) << 23));
  }
};

/// The scales of the numbers from x[i] on, one for each lane.
struct Scales {
  vf down, up, most;
};

/// One scale for 128 numbers.
struct SameScale {
  Scales scales;
  explicit SameScale(const Scale& s) : scales{vset(s.down), vset(s.up), vset(s.most)} {}
  HWS_INLINE Scales at(int) const { return scales; }
};

/// A scale for each of 128 columns.
struct ColumnScales {
  float down[kBlock], up[kBlock], most[kBlock];
  HWS_INLINE void set(int i, const Scale& s) { down[i] = s.down, up[i] = s.up, most[i] = s.most; }
  HWS_INLINE Scales at(int i) const { return {vload(down + i), vload(up + i), vload(most + i)}; }
};

/// Rounds x[0..128) to y[0..128), which may be x.
struct Rounding {
  uint32_t least, shift;

  explicit Rounding(const Fp8Format& f)
      : least(static_cast<uint32_t>(128 - f.bias) << 23),
        shift(static_cast<uint32_t>(23 - f.fraction_bits)) {}

  /// With a number's own exponent E, or the least normal one of the format, 2^(E + 23 - fraction) has the
  /// unit of the code as its last bit, so that adding and subtracting it rounds.
  template <class S>
  HWS_NOINLINE void block(float* y, const float* x, const S& scales) const {
#pragma GCC unroll 2
    for (int i = 0; i < kBlock; i += kLanes) {
      const Scales s = scales.at(i);
      const vf number = vload(x + i), size = vabs(number);
      const vf scaled = vmin(vmul(size, s.down), s.most);
      const vw own = (vw)vmax_bits((vf)((vw)scaled & 0x7f800000u), (vf)splat(least));
      const vf unit_last = (vf)(own + (shift << 23));
      vw bits = (vw)vmul(vsub(vadd(scaled, unit_last), unit_last), s.up) | ((vw)number & 0x80000000u);
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

/// Stores up to 128 numbers.
HWS_INLINE void store_block(uint16_t* y, const float* numbers, int n) {
  uint16_t narrow[kBlock];
  uint16_t* const to = n == kBlock ? y : narrow;
  for (int i = 0; i < kBlock; i += kLanes) vstore_bf16(to + i, vload(numbers + i));
  if (n < kBlock) __builtin_memcpy(y, narrow, static_cast<size_t>(n) * sizeof *y);
}

/// Returns the larger of `most` and the size of each x that is finite.
HWS_INLINE vf most_finite(vf most, vf x) {
  const vw size = (vw)vabs(x);
  return vmax_bits(most, (vf)(size & (vw)(size < splat(0x7f800000u))));
}

/// Calls body(row, column, count) for blocks of up to 128 numbers of rows [begin, end).
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
    for (int i = 0; i < kBlock; i += kLanes) most = most_finite(most, vload(numbers + i));
  });
  return static_cast<uint32_t>(vhmax_bits(most));
}

template <class T>
void round(const Fp8Round& a, const SameScale& scale, int64_t begin, int64_t end) {
  const Rounding rounding(fp8_format(a.type));
  each_block(a.n, begin, end, [&](int64_t row, int64_t column, int count) {
    float numbers[kBlock];
    load_block(numbers, static_cast<const T*>(a.x) + row * a.x_stride + column, count);
    rounding.block(numbers, numbers, scale);
    store_block(a.y + row * a.y_stride + column, numbers, count);
  });
}

/// Numbers of a tensor that are rounded together: at most 128 columns of some rows.
struct Tile {
  int64_t row, end, column;
  int count;
};

/// Loads up to 128 numbers of any type. Not a template: a tile's two passes would be compiled for each type.
HWS_NOINLINE void load_of_type(float* to, const void* x, DType type, int64_t at, int n) {
  with_element(type, [&](auto element) { load_block(to, static_cast<const decltype(element)*>(x) + at, n); });
}

template <class S>
void round_by(const S& scales, const Fp8Round& a, const Tile& t) {
  const Rounding rounding(fp8_format(a.type));
  for (int64_t row = t.row; row < t.end; ++row) {
    float numbers[kBlock];
    load_of_type(numbers, a.x, a.x_type, row * a.x_stride + t.column, t.count);
    rounding.block(numbers, numbers, scales);
    store_block(a.y + row * a.y_stride + t.column, numbers, t.count);
  }
}

void round_tile(const Fp8Round& a, const Tile& t) {
  float most[kBlock] = {};  // of each column
  for (int64_t row = t.row; row < t.end; ++row) {
    float numbers[kBlock];
    load_of_type(numbers, a.x, a.x_type, row * a.x_stride + t.column, t.count);
    for (int i = 0; i < kBlock; i += kLanes)
      vstore(most + i, most_finite(vload(most + i), vload(numbers + i)));
  }
  const Fp8Format f = fp8_format(a.type);
  if (a.tile == Fp8Tile::k128x1) {
    ColumnScales scales;
    for (int i = 0; i < kBlock; ++i) scales.set(i, Scale(f, float_bits(most[i]), a.margin));
    return round_by(scales, a, t);
  }
  vf all = vzero();
  for (int i = 0; i < kBlock; i += kLanes) all = vmax_bits(all, vload(most + i));
  round_by(SameScale(Scale(f, static_cast<uint32_t>(vhmax_bits(all)), a.margin)), a, t);
}

/// The tiles of a tensor in order: all columns of a row, then the next rows.
struct Tiles {
  const Fp8Round& a;
  const int64_t in_row, most_rows, groups, rows;

  explicit Tiles(const Fp8Round& args)
      : a(args),
        in_row((args.n + kBlock - 1) / kBlock),
        most_rows(args.tile == Fp8Tile::k1x128 ? 1 : kBlock),
        groups(args.tile == Fp8Tile::k1x128 ? 1 : args.groups),
        rows(args.end != nullptr ? *args.end : args.rows) {}

  int64_t first_row(int64_t group) const {
    if (groups == 1) return group * rows;
    return a.offsets != nullptr ? a.offsets[group] : a.rows / groups * group;
  }
  int64_t count() const {
    int64_t count = 0;
    for (int64_t group = 0; group < groups; ++group) count += in_group(group);
    return count * in_row;
  }
  Tile at(int64_t index) const {
    int64_t rest = index / in_row, group = 0;
    while (rest >= in_group(group)) rest -= in_group(group++);
    const int64_t row = first_row(group) + rest * most_rows, last = first_row(group + 1);
    const int64_t column = index % in_row * kBlock;
    return {row, row + most_rows < last ? row + most_rows : last, column,
            static_cast<int>(a.n - column < kBlock ? a.n - column : kBlock)};
  }

 private:
  int64_t in_group(int64_t group) const {
    return (first_row(group + 1) - first_row(group) + most_rows - 1) / most_rows;
  }
};

void round_tiles(const Fp8Round& args, Stream& stream) {
  const Tiles tiles(args);
  parallel_ranges(stream, tiles.count(), kGrain / (tiles.most_rows * kBlock),
                  [&](int64_t begin, int64_t end) {
                    for (int64_t i = begin; i < end; ++i) round_tile(args, tiles.at(i));
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
  if (args.tile != Fp8Tile::kTensor) return round_tiles(args, stream);
  const SameScale scale(Scale(fp8_format(args.type), float_bits(*args.maximum), args.margin));
  const int64_t rows = args.end != nullptr ? *args.end : args.rows;
  parallel_ranges(stream, rows, rows_of_task(args.n), [&](int64_t begin, int64_t end) {
    with_element(args.x_type, [&](auto element) { round<decltype(element)>(args, scale, begin, end); });
  });
}

}  // namespace hawser::kernels::HWS_LEVEL
