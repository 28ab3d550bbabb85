// The exact sum of squares for gradient norms. Sixteen lanes add the squares of a block of 64 elements in the
// order of the contract; the first lane has an exact sum in shared memory. All further additions are of
// integers, so atomics in any order give the same bits.
#include "kernels/cuda/table.h"
#include "kernels/cuda/team.h"
#include "kernels/cuda/types.h"

namespace hawser::kernels::cuda {
namespace {

constexpr int kThreads = 256, kLanes = 16, kTeams = kThreads / kLanes, kMergeThreads = 3 * kWarpLanes;

struct Shared {
  int64_t words[kTeams][ExactSum::kWords];
};

/// Returns the sum of kNormBlock elements from g + begin on, on each of sixteen lanes; elements after n count
/// as zero.
template <class T>
__device__ __forceinline__ double block_sum(const T* g, int64_t begin, int64_t n, int lane) {
  double sum = 0.0;
#pragma unroll
  for (int64_t i = begin + lane; i < begin + kNormBlock; i += kLanes) {
    const double x = i < n ? static_cast<double>(to_float(g[i])) : 0.0;
    sum += x * x;
  }
#pragma unroll
  for (int bits = kLanes / 2; bits > 0; bits /= 2) sum += __shfl_xor_sync(kAllLanes, sum, bits);
  return sum;
}

template <class T>
__global__ void __launch_bounds__(kThreads) sum_of_squares_kernel(const SumOfSquares a) {
  auto& shared = shared_memory<Shared>();
  const int thread = static_cast<int>(threadIdx.x), team = thread / kLanes, lane = thread % kLanes;
  for (int i = thread; i < kTeams * ExactSum::kWords; i += kThreads) {
    shared.words[i / ExactSum::kWords][i % ExactSum::kWords] = 0;
  }
  __syncthreads();
  const int64_t step = static_cast<int64_t>(gridDim.x) * kTeams, blocks = (a.n + kNormBlock - 1) / kNormBlock;
  // Both halves of a warp must run the loop equally often, because they shuffle together.
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * kTeams; first < blocks; first += step) {
    const int64_t block = first + team;
    const double sum = block_sum(static_cast<const T*>(a.g), block * kNormBlock, a.n, lane);
    if (lane != 0 || block >= blocks) continue;
    exact_sum_add(shared.words[team], sum);
    ++shared.words[team][ExactSum::kAdds];
  }
  __syncthreads();
  for (int w = thread; w < ExactSum::kWords; w += kThreads) {
    int64_t total = 0;
    for (int t = 0; t < kTeams; ++t) total += shared.words[t][w];
    if (total == 0) continue;
    atomicAdd(reinterpret_cast<unsigned long long*>(&a.workspace->words[w]),
              static_cast<unsigned long long>(total));
  }
}

/// Propagates carries, like ExactSum::normalise.
__device__ void carry(int64_t* words) {
  int64_t carried = 0;
  for (int i = 0; i < ExactSum::kLimbs - 1; ++i) {
    const int64_t limb = words[i] + carried;
    carried = limb >> ExactSum::kLimbBits;
    words[i] = limb & 0xffffffff;
  }
  words[ExactSum::kLimbs - 1] += carried;
  words[ExactSum::kAdds] = 1;
}

/// Adds `other` to `sum`, like ExactSum::merge.
__global__ void __launch_bounds__(kMergeThreads) merge_kernel(ExactSum* sum, ExactSum* other) {
  if (threadIdx.x == 0 && sum->words[ExactSum::kAdds] + other->words[ExactSum::kAdds] > ExactSum::kMaxAdds) {
    carry(sum->words);
    carry(other->words);
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < ExactSum::kWords; i += kMergeThreads) {
    sum->words[i] += other->words[i];
  }
}

}  // namespace

void sum_of_squares(const SumOfSquares& args, Stream& stream) {
  CudaStream& cuda = cuda_stream(stream);
  if (args.n <= 0) return;
  cuda.succeeded(cudaMemsetAsync(args.workspace, 0, sizeof(ExactSum), cuda.handle), "sum_of_squares");
  const int64_t wanted = blocks_for(args.n, int64_t{kTeams} * kNormBlock),
                most = int64_t{cuda.multiprocessors} * 8;
  for_type(args.type, [&](auto tag) {
    launch(cuda, "sum_of_squares", {grid(wanted < most ? wanted : most), kThreads, sizeof(Shared)},
           sum_of_squares_kernel<type_of<decltype(tag)>>, args);
  });
  launch(cuda, "sum_of_squares", {grid(1), kMergeThreads}, merge_kernel, args.sum, args.workspace);
}

}  // namespace hawser::kernels::cuda
