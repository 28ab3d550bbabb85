// Norms of rows of a weight: a warp computes a row, and each lane one of the sums of the contract. Scaled
// columns: by elements. Multiplied columns: a block computes 32 of them, and each of its warps some of the
// rows.
#include "kernels/cuda/elements.h"
#include "kernels/cuda/table.h"
#include "kernels/cuda/team.h"
#include "kernels/cuda/types.h"

namespace hawser::kernels::cuda {
namespace {

constexpr int kWarps = 8;
static_assert(kSquareLanes == kWarpLanes);

template <class T>
__global__ void __launch_bounds__(kWarps* kWarpLanes) row_squares_kernel(const RowSquares a) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kWarps + warp_of_thread();
  if (row >= a.rows) return;
  const T* const w = static_cast<const T*>(a.w) + row * a.n;
  const float* const ba = a.ba + row * a.n;
  double sum = 0.0;
  for (int64_t i = lane_of_thread(); i < a.n; i += kWarpLanes) {
    float x[1];
    load<1>(x, w + i);
    const double v = static_cast<double>(x[0] + a.scale * ba[i]);
    sum += v * v;
  }
#pragma unroll
  for (int half = kWarpLanes / 2; half > 0; half /= 2) sum += __shfl_xor_sync(kAllLanes, sum, half);
  if (lane_of_thread() == 0) a.squares[row] = static_cast<float>(sum);
}

__device__ inline float norm_of(const Magnitudes& by, int64_t column) {
  const float norm = sqrtf(by.squares[column]);
  return by.type == DType::kBf16 ? __bfloat162float(__float2bfloat16_rn(norm)) : norm;
}

__device__ inline float factor_of(const Magnitudes& by, int64_t column) {
  const float norm = norm_of(by, column);
  const float m = by.type == DType::kBf16 ? __bfloat162float(static_cast<const bf16*>(by.m)[column])
                                          : static_cast<const float*>(by.m)[column];
  return norm == 0.0f ? 1.0f : m / norm;
}

template <class To, class From>
struct Scaling {
  ScaleColumns a;

  template <int N>
  __device__ void at(int64_t i) const {
    const int64_t row = i / a.n, column = i - row * a.n;
    float x[N];
    load<N>(x, static_cast<const From*>(a.x) + row * a.x_stride + column);
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const float factor = factor_of(a.by, column + k);
      x[k] *= factor;
      if (a.bias != nullptr) x[k] += (1.0f - factor) * a.bias[column + k];
    }
    store<N>(static_cast<To*>(a.y) + row * a.y_stride + column, x);
  }
};

struct WarpColumns {
  float sum[kWarps][kWarpLanes];
};

template <class T>
__global__ void __launch_bounds__(kWarps* kWarpLanes) column_dot_kernel(const ColumnDot a) {
  auto& shared = shared_memory<WarpColumns>();
  const int lane = lane_of_thread(), warp = warp_of_thread();
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kWarpLanes + lane;
  float sum = 0.0f;
  if (column < a.n) {
#pragma unroll 4
    for (int64_t r = warp; r < a.rows; r += kWarps) {
      float dy[1];
      load<1>(dy, static_cast<const T*>(a.dy) + r * a.dy_stride + column);
      sum += dy[0] * a.z[r * a.z_stride + column];
    }
  }
  shared.sum[warp][lane] = sum;
  __syncthreads();
  if (warp != 0 || column >= a.n) return;
  for (int w = 1; w < kWarps; ++w) sum += shared.sum[w][lane];
  const float norm = norm_of(a.by, column), own = norm == 0.0f ? 0.0f : sum / norm;
  a.dm[column] = a.accumulate ? a.dm[column] + own : own;
}

}  // namespace

void row_squares(const RowSquares& args, Stream& stream) {
  if (args.rows <= 0) return;
  for_type(args.type, [&](auto tag) {
    launch(cuda_stream(stream), "row_squares", {grid(blocks_for(args.rows, kWarps)), kWarps * kWarpLanes},
           row_squares_kernel<type_of<decltype(tag)>>, args);
  });
}

void scale_columns(const ScaleColumns& args, Stream& stream) {
  const bool wide = args.n % kWide == 0 && wide_rows(args.y, args.y_stride, args.y_type) &&
                    wide_rows(args.x, args.x_stride, args.x_type);
  const auto scale = [&](const auto& body) {
    for_each_element(cuda_stream(stream), "scale_columns", args.rows * args.n, wide, body);
  };
  for_type(args.y_type, [&](auto to) {
    using To = type_of<decltype(to)>;
    args.x_type == args.y_type ? scale(Scaling<To, To>{args}) : scale(Scaling<To, float>{args});
  });
}

void column_dot(const ColumnDot& args, Stream& stream) {
  if (args.n <= 0) return;
  for_type(args.dy_type, [&](auto tag) {
    launch(cuda_stream(stream), "column_dot",
           {grid(blocks_for(args.n, kWarpLanes)), kWarps * kWarpLanes, sizeof(WarpColumns)},
           column_dot_kernel<type_of<decltype(tag)>>, args);
  });
}

}  // namespace hawser::kernels::cuda
