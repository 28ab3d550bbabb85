// Column sums in two passes: each warp sums a range of rows, with one lane for kWide columns; then the sums
// of the ranges are added.
#include "kernels/cuda/partial_sums.h"
#include "kernels/cuda/table.h"
#include "kernels/cuda/team.h"
#include "kernels/cuda/types.h"

namespace hawser::kernels::cuda {
namespace {

constexpr int kWarps = 8, kColumns = kWarpLanes * kWide;

template <class T>
__global__ void __launch_bounds__(kWarps* kWarpLanes)
    column_sum_kernel(const ColumnSum a, Runs runs, bool wide, bool wide_partial) {
  const int64_t part = static_cast<int64_t>(blockIdx.x) * kWarps + warp_of_thread();
  const int64_t column = static_cast<int64_t>(blockIdx.y) * kColumns + lane_of_thread() * kWide,
                count = a.n - column;
  if (part >= runs.parts || count <= 0) return;
  const int64_t begin = part * runs.rows, end = begin + runs.rows < a.rows ? begin + runs.rows : a.rows;
  float sum[kWide] = {};
#pragma unroll 4
  for (int64_t r = begin; r < end; ++r) {
    float x[kWide];
    load_some(x, static_cast<const T*>(a.dy) + r * a.stride + column, count, wide);
#pragma unroll
    for (int k = 0; k < kWide; ++k) sum[k] += x[k];
  }
  store_some(static_cast<float*>(a.workspace) + part * a.n + column, sum, count, wide_partial);
}

}  // namespace

void column_sum(const ColumnSum& args, Stream& stream) {
  CudaStream& cuda = cuda_stream(stream);
  if (args.n <= 0) return;
  const Runs runs = runs_of(args.rows);
  const bool wide = wide_rows(args.dy, args.stride, args.type);
  const bool wide_partial = wide_rows(args.workspace, args.n, DType::kF32);
  for_type(args.type, [&](auto tag) {
    if (runs.parts == 0) return;
    const dim3 blocks(static_cast<unsigned>(blocks_for(runs.parts, kWarps)),
                      static_cast<unsigned>(blocks_for(args.n, kColumns)));
    launch(cuda, "column_sum", {blocks, kWarps * kWarpLanes}, column_sum_kernel<type_of<decltype(tag)>>, args,
           runs, wide, wide_partial);
  });
  add_partial_sums(cuda, "column_sum", args.dbias, static_cast<const float*>(args.workspace), runs.parts,
                   args.n, args.accumulate);
}

}  // namespace hawser::kernels::cuda
