// LayerNorm and RMSNorm: mean, then squared deviations from it, then the result, all from registers. The
// input is in memory, or is the next value of the residual stream, computed in the same pass. A block that
// processes one row at a time goes from row to row and loads the next row while it sums the current one;
// otherwise memory would idle while the block waits for its sums.
#include "kernels/cuda/dropout.h"
#include "kernels/cuda/norm_row.h"
#include "kernels/cuda/table.h"

namespace hawser::kernels::cuda {
namespace {

struct Shared {
  WarpValues sums[2];
};

/// Sum over the row of (x - shift)^2.
template <class Team, int kChunks>
__device__ float squares(const float (&x)[kChunks][kWide], int64_t d, float shift, WarpValues& values) {
  float sum = 0.0f;
#pragma unroll
  for (int k = 0; k < kChunks; ++k) {
    const int64_t count = d - chunk_start<Team>(k);
#pragma unroll
    for (int i = 0; i < kWide; ++i) {
      const float deviation = i < count ? x[k][i] - shift : 0.0f;
      sum = fmaf(deviation, deviation, sum);
    }
  }
  return Team::sum(sum, values);
}

template <class Team, int kChunks>
__device__ float plain_sum(const float (&x)[kChunks][kWide], WarpValues& values) {
  float sum = 0.0f;
#pragma unroll
  for (int k = 0; k < kChunks; ++k) {
#pragma unroll
    for (int i = 0; i < kWide; ++i) sum += x[k][i];
  }
  return Team::sum(sum, values);
}

/// Rows that are stored in memory.
template <class X>
struct StoredRows {
  template <class Team, int kChunks>
  static __device__ void load(float (&x)[kChunks][kWide], const NormForward& a, int64_t row, int64_t at,
                              bool wide) {
    load_row<Team>(x, static_cast<const X*>(a.x) + row * a.x_stride + at, a.d, wide);
  }
};

/// Rows of the residual stream, x + dropout(branch), which are also stored. The norm uses the stored values.
template <class X>
struct SummedRows {
  template <class Team, int kChunks>
  static __device__ void load(float (&x)[kChunks][kWide], const NormForward& a, int64_t row, int64_t,
                              bool wide) {
    const ResidualForward& r = a.residual;
    const int64_t begin = row * a.d;
    load_row<Team>(x, static_cast<const X*>(r.x) + begin, a.d, wide);
#pragma unroll
    for (int k = 0; k < kChunks; ++k) {
      const int64_t start = chunk_start<Team>(k);
      float branch[kWide];
      load_weight(branch, r.branch, r.branch_type, begin + start, a.d - start, wide);
      if (start < a.d) drop_features<kWide>(branch, r.dropout, r.seq, row, start);
#pragma unroll
      for (int i = 0; i < kWide; ++i) x[k][i] = rounded_to<X>(x[k][i] + branch[i]);
    }
    store_row<Team>(static_cast<X*>(r.y) + begin, x, a.d, wide);
  }
};

/// Normalises the row in x.
template <class Team, class Y, int kChunks>
__device__ __forceinline__ void normalise(float (&x)[kChunks][kWide], const NormForward& a, int64_t vector,
                                          Shared& shared, bool wide, bool wide_weight) {
  const int64_t row = vector / a.groups, at = vector % a.groups * a.d;
  const float n = static_cast<float>(a.d);
  const float mean = a.mean != nullptr ? plain_sum<Team>(x, shared.sums[0]) / n : 0.0f;
  const float rstd = 1.0f / sqrtf(squares<Team>(x, a.d, mean, shared.sums[1]) / n + a.eps);
#pragma unroll
  for (int k = 0; k < kChunks; ++k) {
    const int64_t start = chunk_start<Team>(k), count = a.d - start;
    float weight[kWide], bias[kWide];
    load_weight(weight, a.weight, a.weight_type, start, count, wide_weight);
    load_weight(bias, a.bias, a.weight_type, start, count, wide_weight);
#pragma unroll
    for (int i = 0; i < kWide; ++i) {
      x[k][i] = fmaf((x[k][i] - mean) * rstd, a.weight_offset + weight[i], bias[i]);
    }
  }
  store_row<Team>(static_cast<Y*>(a.y) + row * a.y_stride + at, x, a.d, wide);
  if (Team::rank() != 0) return;
  a.rstd[vector] = rstd;
  if (a.mean != nullptr) a.mean[vector] = mean;
}

/// True if a block goes from row to row. Teams of four chunks lack registers for a second row.
template <class Shape>
constexpr bool kLoadsAhead = Shape::kMostThreads > kNormWarps* kWarpLanes&& Shape::kChunks <= 2;

template <class Shape, class Rows, class Y>
__global__ void __launch_bounds__(Shape::kMostThreads)
    norm_forward_kernel(const NormForward a, int teams, bool wide, bool wide_weight) {
  using Team = typename Shape::Team;
  auto& shared = shared_memory<Shared>();
  const int64_t vectors = a.rows * a.groups;
  const auto load = [&](float(&x)[Shape::kChunks][kWide], int64_t vector) {
    Rows::template load<Team>(x, a, vector / a.groups, vector % a.groups * a.d, wide);
  };
  int64_t vector = static_cast<int64_t>(blockIdx.x) * teams + (teams == 1 ? 0 : warp_of_thread());
  if (vector >= vectors) return;
  float x[Shape::kChunks][kWide];
  load(x, vector);
  if constexpr (kLoadsAhead<Shape>) {
    for (int64_t next = vector + gridDim.x; next < vectors; vector = next, next += gridDim.x) {
      float ahead[Shape::kChunks][kWide];
      load(ahead, next);
      normalise<Team, Y>(x, a, vector, shared, wide, wide_weight);
      Team::barrier();  // because the next row's sums use the same shared memory
#pragma unroll
      for (int k = 0; k < Shape::kChunks; ++k) {
#pragma unroll
        for (int i = 0; i < kWide; ++i) x[k][i] = ahead[k][i];
      }
    }
  }
  normalise<Team, Y>(x, a, vector, shared, wide, wide_weight);
}

/// Number of blocks in the grid: one per row or group of rows. If blocks go from row to row, at most as many
/// as every GPU can run at once.
template <class Shape>
int64_t norm_blocks(const NormForward& a, const RowBlock& block, const CudaStream& stream) {
  const int64_t all = blocks_for(a.rows * a.groups, block.teams);
  const int64_t at_once = int64_t{stream.multiprocessors} * (Shape::kMostThreads / block.threads);
  return kLoadsAhead<Shape> && at_once < all ? at_once : all;
}

}  // namespace

void norm_forward(const NormForward& args, Stream& stream) {
  CudaStream& cuda = cuda_stream(stream);
  if (args.rows <= 0 || args.groups <= 0 || args.d <= 0) return;
  const int64_t group = args.groups > 1 ? args.d : 0;
  const bool wide = wide_rows(args.x, args.x_stride, args.x_type) &&
                    wide_rows(args.y, args.y_stride, args.y_type) && wide_rows(nullptr, group, args.x_type) &&
                    wide_rows(nullptr, group, args.y_type) && all_wide({args.residual.x}) &&
                    wide_rows(args.residual.branch, args.residual.d, args.residual.branch_type);
  const bool wide_weight = all_wide({args.weight, args.bias});
  for_row_shape(cuda, "norm_forward", args.d, [&](auto shape, RowBlock block) {
    for_type(args.y_type, [&](auto y) {
      const auto run = [&](auto rows) {
        launch(cuda, "norm_forward",
               {grid(norm_blocks<decltype(shape)>(args, block, cuda)), block.threads, sizeof(Shared)},
               norm_forward_kernel<decltype(shape), decltype(rows), type_of<decltype(y)>>, args, block.teams,
               wide, wide_weight);
      };
      for_type(args.x_type, [&](auto x) {
        if (args.residual.y != nullptr) return run(SummedRows<type_of<decltype(x)>>{});
        run(StoredRows<type_of<decltype(x)>>{});
      });
    });
  });
}

}  // namespace hawser::kernels::cuda
