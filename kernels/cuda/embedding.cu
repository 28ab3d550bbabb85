// Embedding look-up and its gradient. The gradient sums the rows that have the same index, in ascending
// order, without atomics or workspace. There is one block per row. It checks whether an earlier row has its
// index. If none has, the block owns that row of the table and adds all later ones. This reads the indices
// quadratically often, but they are in L2, and frequent indices are found quickly.
#include "kernels/cuda/elements.h"
#include "kernels/cuda/table.h"
#include "kernels/cuda/team.h"
#include "kernels/cuda/types.h"

namespace hawser::kernels::cuda {
namespace {

template <class T>
struct LookUp {
  EmbeddingForward a;

  template <int N>
  __device__ void at(int64_t i) const {
    const int64_t row = i / a.d, j = i - row * a.d;
    const int64_t word = a.tokens[row] - a.first_word;
    float x[N] = {};
    if (word >= 0 && word < a.words) {
      load<N>(x, static_cast<const T*>(a.tokens_weight) + word * a.d + j);
#pragma unroll
      for (int k = 0; k < N; ++k) x[k] *= a.scale;
    }
    if (a.positions_weight != nullptr) {
      float place[N];
      load<N>(place, static_cast<const T*>(a.positions_weight) + a.positions[row] * a.d + j);
#pragma unroll
      for (int k = 0; k < N; ++k) x[k] += place[k];
    }
    store<N>(a.x + i, x);
  }
};

constexpr int kThreads = 128, kWarps = kThreads / kWarpLanes, kColumns = kThreads * kWide;

struct Shared {
  unsigned matches[2][kWarps];
};

/// Bit l of word w says whether row begin + 32 w + l, below `end`, has this index. Tiles alternate in shared
/// memory, so that one barrier each is enough.
__device__ __forceinline__ const unsigned* matching_rows(const EmbeddingBackward& a, int32_t index,
                                                         int64_t begin, int64_t end, int turn,
                                                         Shared& shared) {
  const int64_t row = begin + threadIdx.x;
  const unsigned matches = __ballot_sync(kAllLanes, row < end && a.index[row] == index);
  if (lane_of_thread() == 0) shared.matches[turn % 2][warp_of_thread()] = matches;
  __syncthreads();
  return shared.matches[turn % 2];
}

/// Whether a row before `row` has the same index, searching backwards.
__device__ bool stands_earlier(const EmbeddingBackward& a, int32_t index, int64_t row, int& turn,
                               Shared& shared) {
  for (int64_t end = row; end > 0; end -= kThreads, ++turn) {
    const int64_t begin = end > kThreads ? end - kThreads : 0;
    const unsigned* matches = matching_rows(a, index, begin, end, turn, shared);
    unsigned any = 0;
    for (int w = 0; w < kWarps; ++w) any |= matches[w];
    if (any != 0) return true;
  }
  return false;
}

__global__ void __launch_bounds__(kThreads) embedding_backward_kernel(const EmbeddingBackward a, bool wide) {
  auto& shared = shared_memory<Shared>();
  const int64_t first = blockIdx.x;
  const int64_t column =
      static_cast<int64_t>(blockIdx.y) * kColumns + static_cast<int64_t>(threadIdx.x) * kWide;
  const int64_t count = a.d - column;
  const int32_t index = a.index[first];
  const int64_t table_row = index - a.first;
  int turn = 0;
  if (index == a.skip || table_row < 0 || table_row >= a.table_rows) return;
  if (stands_earlier(a, index, first, turn, shared)) return;
  float sum[kWide] = {}, dx[kWide];
  float* out = a.dweight + table_row * a.d + column;
  if (a.accumulate) load_some(sum, out, count, wide);
  for (int64_t begin = first; begin < a.rows; begin += kThreads, ++turn) {
    const unsigned* matches = matching_rows(a, index, begin, a.rows, turn, shared);
    for (int w = 0; w < kWarps; ++w) {
      for (unsigned left = matches[w]; left != 0; left &= left - 1) {
        const int64_t row = begin + w * kWarpLanes + __ffs(static_cast<int>(left)) - 1;
        load_some(dx, a.dx + row * a.d + column, count, wide);
#pragma unroll
        for (int k = 0; k < kWide; ++k) sum[k] += a.scale * dx[k];
      }
    }
  }
  store_some(out, sum, count, wide);
}

}  // namespace

void embedding_forward(const EmbeddingForward& args, Stream& stream) {
  const bool wide = args.d % kWide == 0 && all_wide({args.x, args.tokens_weight, args.positions_weight});
  for_type(args.weight_type, [&](auto tag) {
    for_each_element(cuda_stream(stream), "embedding_forward", args.rows * args.d, wide,
                     LookUp<type_of<decltype(tag)>>{args});
  });
}

void embedding_backward(const EmbeddingBackward& args, Stream& stream) {
  CudaStream& cuda = cuda_stream(stream);
  if (args.d <= 0) return;
  if (!args.accumulate) {
    const auto bytes = static_cast<size_t>(args.table_rows * args.d) * sizeof(float);
    cuda.succeeded(cudaMemsetAsync(args.dweight, 0, bytes, cuda.handle), "embedding_backward");
  }
  if (args.rows <= 0) return;
  const bool wide = all_wide({args.dweight, args.dx}) && args.d % 4 == 0;
  const dim3 blocks(static_cast<unsigned>(args.rows), static_cast<unsigned>(blocks_for(args.d, kColumns)));
  launch(cuda, "embedding_backward", {blocks, kThreads, sizeof(Shared)}, embedding_backward_kernel, args,
         wide);
}

}  // namespace hawser::kernels::cuda
