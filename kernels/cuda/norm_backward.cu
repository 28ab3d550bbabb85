// Backward of LayerNorm and RMSNorm in one pass over x and dy. Each team processes its share of the rows,
// writes dx and keeps the column sums for dweight and dbias in registers. These partial sums are added
// afterwards. The shares depend only on the number and length of rows.
#include "kernels/cuda/norm_row.h"
#include "kernels/cuda/partial_sums.h"
#include "kernels/cuda/table.h"

namespace hawser::kernels::cuda {
namespace {

struct Shared {
  WarpValues sums[2];
};

/// A thread's sums for dweight and dbias, for its columns.
template <int kChunks>
struct Columns {
  float dweight[kChunks][kWide] = {}, dbias[kChunks][kWide] = {};
};

/// Computes dx of one row from xhat and dxhat = dy * weight, which is in dy.
template <class Team, int kChunks>
__device__ __forceinline__ void input_gradient(const NormBackward& a, float rstd, float (&dy)[kChunks][kWide],
                                               const float (&xhat)[kChunks][kWide], Shared& shared) {
  float sum = 0.0f, product = 0.0f;
#pragma unroll
  for (int k = 0; k < kChunks; ++k) {
#pragma unroll
    for (int i = 0; i < kWide; ++i) {
      sum += dy[k][i];
      product = fmaf(dy[k][i], xhat[k][i], product);
    }
  }
  const float n = static_cast<float>(a.d);
  const float mean_dy = a.mean != nullptr ? Team::sum(sum, shared.sums[0]) / n : 0.0f;
  const float mean_product = Team::sum(product, shared.sums[1]) / n;
#pragma unroll
  for (int k = 0; k < kChunks; ++k) {
#pragma unroll
    for (int i = 0; i < kWide; ++i) dy[k][i] = rstd * (dy[k][i] - mean_dy - xhat[k][i] * mean_product);
  }
}

/// Writes a thread's chunk of the forward's output, recomputed from xhat and weight; overwrites `weight`.
__device__ __forceinline__ void store_output(const NormBackward& a, int64_t at, int64_t start,
                                             const float (&xhat)[kWide], float (&weight)[kWide], bool wide,
                                             bool wide_weight) {
  const int64_t count = a.d - start;
  float bias[kWide];
  load_weight(bias, a.bias, a.weight_type, start, count, wide_weight);
#pragma unroll
  for (int i = 0; i < kWide; ++i) weight[i] = fmaf(xhat[i], a.weight_offset + weight[i], bias[i]);
  if (a.y_type == DType::kBf16) {
    store_some(static_cast<bf16*>(a.y) + at + start, weight, count, wide);
  } else {
    store_some(static_cast<float*>(a.y) + at + start, weight, count, wide);
  }
}

/// Writes a row of an f32 dx, and the rounded row if wanted.
template <class Team, int kChunks>
__device__ __forceinline__ void store_gradient(const NormBackward& a, int64_t at,
                                               const float (&dx)[kChunks][kWide], bool wide) {
  store_row<Team>(static_cast<float*>(a.dx) + at, dx, a.d, wide);
  if (a.rounded != nullptr) store_row<Team>(static_cast<bf16*>(a.rounded) + at, dx, a.d, wide);
}

/// Processes one row: adds to the column sums, and writes dx, and y if wanted. kEarly: if dx accumulates,
/// reads it with the rest of the row, before the team waits for its sums. Blocks of many threads lack
/// registers for kEarly.
template <class Team, int kChunks, bool kEarly, class X, class Dy>
__device__ __forceinline__ void backward_row(const NormBackward& a, int64_t vector, Columns<kChunks>& columns,
                                             Shared& shared, bool wide, bool wide_weight) {
  const int64_t row = vector / a.groups, at = vector % a.groups * a.d;
  const float mean = a.mean != nullptr ? a.mean[vector] : 0.0f, rstd = a.rstd[vector];
  float x[kChunks][kWide], dy[kChunks][kWide], before[kEarly ? kChunks : 1][kWide];
  load_row<Team>(x, static_cast<const X*>(a.x) + row * a.x_stride + at, a.d, wide);
  load_row<Team>(dy, static_cast<const Dy*>(a.dy) + row * a.dy_stride + at, a.d, wide);
  auto* const sum = static_cast<float*>(a.dx) + row * a.dx_stride + at;
  if constexpr (kEarly) {
    if (a.dx_accumulate) load_row<Team>(before, sum, a.d, wide);
  }
#pragma unroll
  for (int k = 0; k < kChunks; ++k) {
    const int64_t start = chunk_start<Team>(k);
    float weight[kWide];
    load_weight(weight, a.weight, a.weight_type, start, a.d - start, wide_weight);
#pragma unroll
    for (int i = 0; i < kWide; ++i) {
      x[k][i] = (x[k][i] - mean) * rstd;  // after the row's end dy is zero, so this adds nothing
      columns.dweight[k][i] = fmaf(dy[k][i], x[k][i], columns.dweight[k][i]);
      columns.dbias[k][i] += dy[k][i];
      dy[k][i] *= a.weight_offset + weight[i];
    }
    if (a.y != nullptr) store_output(a, row * a.y_stride + at, start, x[k], weight, wide, wide_weight);
  }
  input_gradient<Team>(a, rstd, dy, x, shared);
  if (a.dx_accumulate) {
    if constexpr (!kEarly) load_row<Team>(x, sum, a.d, wide);
#pragma unroll
    for (int k = 0; k < kChunks; ++k) {
#pragma unroll
      for (int i = 0; i < kWide; ++i) x[k][i] = (kEarly ? before[kEarly ? k : 0][i] : x[k][i]) + dy[k][i];
    }
    store_gradient<Team>(a, row * a.dx_stride + at, x, wide);
  } else if (a.dx_type == DType::kBf16) {
    store_row<Team>(static_cast<bf16*>(a.dx) + row * a.dx_stride + at, dy, a.d, wide);
  } else {
    store_gradient<Team>(a, row * a.dx_stride + at, dy, wide);
  }
}

template <class Shape, class X, class Dy>
__global__ void __launch_bounds__(Shape::kMostThreads)
    norm_backward_kernel(const NormBackward a, Shares shares, int teams, bool wide, bool wide_weight) {
  using Team = typename Shape::Team;
  constexpr int kChunks = Shape::kChunks;
  auto& shared = shared_memory<Shared>();
  const int64_t part = static_cast<int64_t>(blockIdx.x) * teams + (teams == 1 ? 0 : warp_of_thread());
  if (part >= shares.parts) return;
  const int64_t rows = a.rows * a.groups, begin = part * shares.rows_each;
  const int64_t end = begin + shares.rows_each < rows ? begin + shares.rows_each : rows;
  Columns<kChunks> columns;
  for (int64_t vector = begin; vector < end; ++vector) {
    backward_row<Team, kChunks, Shape::kMostThreads == kNormWarps * kWarpLanes, X, Dy>(
        a, vector, columns, shared, wide, wide_weight);
    Team::barrier();  // because the next row's sums use the same shared memory
  }
  auto* partial = static_cast<float*>(a.workspace) + part * a.d;
  const bool wide_partial = a.d % 4 == 0;
  store_row<Team>(partial, columns.dweight, a.d, wide_partial);
  store_row<Team>(partial + shares.parts * a.d, columns.dbias, a.d, wide_partial);
}

bool reads_wide(const NormBackward& a) {
  const int64_t group = a.groups > 1 ? a.d : 0;
  if (a.rounded != nullptr &&
      !(wide_rows(a.rounded, a.dx_stride, DType::kBf16) && wide_rows(nullptr, group, DType::kBf16)))
    return false;
  return wide_rows(a.x, a.x_stride, a.x_type) && wide_rows(a.dy, a.dy_stride, a.dy_type) &&
         wide_rows(a.dx, a.dx_stride, a.dx_type) && wide_rows(a.y, a.y_stride, a.y_type) &&
         wide_rows(nullptr, group, a.y_type) && wide_rows(nullptr, group, a.x_type) &&
         wide_rows(nullptr, group, a.dy_type) && wide_rows(nullptr, group, a.dx_type);
}

}  // namespace

void norm_backward(const NormBackward& args, Stream& stream) {
  CudaStream& cuda = cuda_stream(stream);
  if (args.rows <= 0 || args.groups <= 0 || args.d <= 0) return;
  const Shares shares = shares_of(args);
  const bool wide = reads_wide(args), wide_weight = all_wide({args.weight, args.bias});
  for_row_shape(cuda, "norm_backward", args.d, [&](auto shape, RowBlock block) {
    for_type(args.x_type, [&](auto x) {
      for_type(args.dy_type, [&](auto dy) {
        launch(cuda, "norm_backward",
               {grid(blocks_for(shares.parts, block.teams)), block.threads, sizeof(Shared)},
               norm_backward_kernel<decltype(shape), type_of<decltype(x)>, type_of<decltype(dy)>>, args,
               shares, block.teams, wide, wide_weight);
      });
    });
  });
  auto* partial = static_cast<const float*>(args.workspace);
  add_partial_sums(cuda, "norm_backward", args.dweight, partial, shares.parts, args.d,
                   args.weights_accumulate);
  if (args.dbias == nullptr) return;
  add_partial_sums(cuda, "norm_backward", args.dbias, partial + shares.parts * args.d, shares.parts, args.d,
                   args.weights_accumulate);
}

}  // namespace hawser::kernels::cuda
