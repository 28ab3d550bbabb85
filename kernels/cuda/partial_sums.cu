// Adds partial sums. A block sums 32 columns: each of its 32 warps sums one slice of the parts, with a lane
// per column; then one warp sums the slices.
#include "kernels/cuda/partial_sums.h"

#include "kernels/cuda/shared_memory.h"
#include "kernels/cuda/team.h"

namespace hawser::kernels::cuda {
namespace {

constexpr int kSlices = 32, kColumns = kWarpLanes;

struct Shared {
  float slice[kSlices][kColumns];
};

__global__ void __launch_bounds__(kSlices* kColumns)
    partial_sums_kernel(float* out, const float* partial, int64_t parts, int64_t n, bool accumulate) {
  auto& shared = shared_memory<Shared>();
  const int lane = lane_of_thread(), slice = warp_of_thread();
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kColumns + lane;
  const int64_t share = (parts + kSlices - 1) / kSlices, begin = slice * share;
  const int64_t end = begin + share < parts ? begin + share : parts;
  float sum = 0.0f;
  if (column < n) {
#pragma unroll 8
    for (int64_t p = begin; p < end; ++p) sum += partial[p * n + column];
  }
  shared.slice[slice][lane] = sum;
  __syncthreads();
  if (slice != 0 || column >= n) return;
  sum = 0.0f;
  for (int s = 0; s < kSlices; ++s) sum += shared.slice[s][lane];
  out[column] = accumulate ? out[column] + sum : sum;
}

}  // namespace

void add_partial_sums(CudaStream& stream, const char* operation, float* out, const float* partial,
                      int64_t parts, int64_t n, bool accumulate) {
  launch(stream, operation, {grid(blocks_for(n, kColumns)), kSlices * kColumns, sizeof(Shared)},
         partial_sums_kernel, out, partial, parts, n, accumulate);
}

}  // namespace hawser::kernels::cuda
