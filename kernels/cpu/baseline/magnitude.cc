// Norms of the rows of a weight, columns of activations scaled by factors derived from these norms, and the
// gradients of magnitudes.
#include HWS_SIMD

#include "kernels/cpu/level.h"
#include "kernels/cpu/parallel.h"

namespace hawser::kernels::baseline {
namespace {

constexpr int64_t kColumns = 64;    // columns whose factors are computed at a time
constexpr int64_t kRowBlock = 128;  // rows whose sum is computed before it is added to the total
constexpr int64_t kGrain = 16384;   // approximate number of elements in a task

/// The sum of squares of a row, added in the order that the header defines.
template <class T>
float square(const RowSquares& a, int64_t row) {
  const T* const w = static_cast<const T*>(a.w) + row * a.n;
  const float* const ba = a.ba + row * a.n;
  double sum[kSquareLanes] = {};
  const auto add = [&](int64_t i, int lane) {
    const float v = load_scalar(w + i) + a.scale * ba[i];
    sum[lane] += static_cast<double>(v) * static_cast<double>(v);
  };
  int64_t i = 0;
  for (; i + kSquareLanes <= a.n; i += kSquareLanes)
    for (int lane = 0; lane < kSquareLanes; ++lane) add(i + lane, lane);
  for (int lane = 0; i + lane < a.n; ++lane) add(i + lane, lane);
  for (int half = kSquareLanes / 2; half > 0; half /= 2)
    for (int lane = 0; lane < half; ++lane) sum[lane] += sum[lane + half];
  return static_cast<float>(sum[0]);
}

/// Computes the norms of columns [first, first + n).
void norms(float* n_of, const Magnitudes& by, int64_t first, int64_t n) {
  for (int64_t j = 0; j < n; ++j) {
    const float norm = __builtin_sqrtf(by.squares[first + j]);
    n_of[j] = with_element(by.type, [&](auto element) { return through_scalar<decltype(element)>(norm); });
  }
}

/// Computes the factors of columns [first, first + n).
void factors(float* factor, const Magnitudes& by, int64_t first, int64_t n) {
  norms(factor, by, first, n);
  for (int64_t j = 0; j < n; ++j) {
    const float m = with_element(by.type, [&](auto element) {
      return load_scalar(static_cast<const decltype(element)*>(by.m) + first + j);
    });
    factor[j] = factor[j] == 0 ? 1.0f : m / factor[j];
  }
}

template <class To, class From>
void scale_rows(const ScaleColumns& a, int64_t begin, int64_t end) {
  for (int64_t first = 0; first < a.n; first += kColumns) {
    const int64_t n = a.n - first < kColumns ? a.n - first : kColumns;
    float factor[kColumns], constant[kColumns];
    factors(factor, a.by, first, n);
    for (int64_t j = 0; j < n && a.bias != nullptr; ++j) constant[j] = (1 - factor[j]) * a.bias[first + j];
    for (int64_t r = begin; r < end; ++r) {
      To* const y = static_cast<To*>(a.y) + r * a.y_stride + first;
      const From* const x = static_cast<const From*>(a.x) + r * a.x_stride + first;
      for (int64_t j = 0; j < n; j += kLanes) {
        const int lanes = static_cast<int>(n - j < kLanes ? n - j : kLanes);
        vf value = vmul(vload_n(factor + j, lanes), load_n(x + j, lanes));
        if (a.bias != nullptr) value = vadd(value, vload_n(constant + j, lanes));
        store_n(y + j, value, lanes);
      }
    }
  }
}

template <class T>
void dot_columns(const ColumnDot& a, int64_t first, int64_t n) {
  float norm[kColumns];
  norms(norm, a.by, first, n);
  for (int64_t j = 0; j < n; j += kLanes) {
    const int lanes = static_cast<int>(n - j < kLanes ? n - j : kLanes);
    const T* const dy = static_cast<const T*>(a.dy) + first + j;
    const float* const z = a.z + first + j;
    vf total = vzero();
    for (int64_t r0 = 0; r0 < a.rows; r0 += kRowBlock) {
      const int64_t end = r0 + kRowBlock < a.rows ? r0 + kRowBlock : a.rows;
      vf sum = vzero();
      for (int64_t r = r0; r < end; ++r)
        sum = vfma(load_n(dy + r * a.dy_stride, lanes), vload_n(z + r * a.z_stride, lanes), sum);
      total = vadd(total, sum);
    }
    float dot[kLanes];
    vstore(dot, total);
    for (int lane = 0; lane < lanes; ++lane) {
      float& dm = a.dm[first + j + lane];
      const float own = norm[j + lane] == 0 ? 0.0f : dot[lane] / norm[j + lane];
      dm = a.accumulate ? dm + own : own;
    }
  }
}

}  // namespace

void row_squares(const RowSquares& args, Stream& stream) {
  const int64_t grain = args.n < kGrain ? kGrain / (args.n > 0 ? args.n : 1) : 1;
  parallel_ranges(stream, args.rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      args.squares[r] =
          with_element(args.type, [&](auto element) { return square<decltype(element)>(args, r); });
  });
}

void scale_columns(const ScaleColumns& args, Stream& stream) {
  if (args.n <= 0) return;
  parallel_ranges(stream, args.rows, args.n < kGrain ? kGrain / args.n : 1, [&](int64_t begin, int64_t end) {
    with_element(args.y_type, [&](auto y) {
      using Y = decltype(y);
      args.x_type == DType::kF32 ? scale_rows<Y, float>(args, begin, end)
                                 : scale_rows<Y, Y>(args, begin, end);
    });
  });
}

void column_dot(const ColumnDot& args, Stream& stream) {
  parallel_ranges(stream, args.n, kColumns, [&](int64_t begin, int64_t end) {
    with_element(args.dy_type,
                 [&](auto element) { dot_columns<decltype(element)>(args, begin, end - begin); });
  });
}

}  // namespace hawser::kernels::baseline
