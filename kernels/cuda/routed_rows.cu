// Sorts choices by expert, and copies rows to the order of experts and back. The sort keeps the order of an
// expert's rows without atomics: a block for each expert visits all choices and counts, then visits them
// again and places them.
#include "kernels/cuda/elements.h"
#include "kernels/cuda/table.h"
#include "kernels/cuda/team.h"
#include "kernels/cuda/types.h"

namespace hawser::kernels::cuda {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / kWarpLanes;

struct Shared {
  int matches[2][kWarps];
};

/// Calls body(choice, its number among the expert's choices) for those of this expert's choices that the
/// thread has; returns the number of all of them.
template <class Body>
__device__ __forceinline__ int walk(const GroupRows& a, int expert, Shared& shared, const Body& body) {
  const int64_t choices = a.rows * a.top_k;
  int before = 0, turn = 0;
  for (int64_t begin = 0; begin < choices; begin += kThreads, ++turn) {
    const int64_t c = begin + threadIdx.x;
    const bool mine = c < choices && a.choice[c] == expert;
    const unsigned votes = __ballot_sync(kAllLanes, mine);
    int* const matches = shared.matches[turn % 2];
    if (lane_of_thread() == 0) matches[warp_of_thread()] = __popc(votes);
    __syncthreads();
    int number = before + __popc(votes & ((1u << lane_of_thread()) - 1u));
    for (int w = 0; w < kWarps; ++w) {
      if (w < warp_of_thread()) number += matches[w];
      before += matches[w];
    }
    if (mine) body(c, number);
  }
  return before;
}

__global__ void __launch_bounds__(kThreads) count_kernel(const GroupRows a) {
  const int count = walk(a, static_cast<int>(blockIdx.x), shared_memory<Shared>(), [](int64_t, int) {});
  if (threadIdx.x == 0) a.workspace[blockIdx.x] = count;
}

__device__ __forceinline__ int kept(const GroupRows& a, int expert) {
  const int count = a.workspace[expert];
  return a.capacity > 0 && count > a.capacity ? static_cast<int>(a.capacity) : count;
}

__global__ void __launch_bounds__(kThreads) place_kernel(const GroupRows a) {
  const int expert = static_cast<int>(blockIdx.x), room = kept(a, expert);
  int begin = 0;
  for (int e = 0; e < expert; ++e) begin += kept(a, e);
  if (threadIdx.x == 0) {
    a.offsets[expert + 1] = begin + room;
    if (expert == 0) a.offsets[0] = 0;
  }
  walk(a, expert, shared_memory<Shared>(), [&](int64_t c, int number) {
    a.place[c] = number < room ? begin + number : -1;
    if (number < room) a.order[begin + number] = static_cast<int32_t>(c);
  });
}

template <class T>
struct Gather {
  GatherRows a;

  template <int N>
  __device__ void at(int64_t i) const {
    const int64_t p = i / a.d;
    if ((a.end != nullptr && p >= *a.end) || a.order[p] < 0) return;
    float x[N];
    load<N>(x, static_cast<const T*>(a.x) + a.order[p] / a.top_k * a.d + (i - p * a.d));
    store<N>(static_cast<T*>(a.y) + i, x);
  }
};

struct Combine {
  CombineRows a;

  template <int N>
  __device__ void at(int64_t i) const {
    const int64_t row = i / a.d, j = i - row * a.d;
    float sum[N] = {}, x[N];
    for (int64_t k = 0; k < a.top_k; ++k) {
      const int64_t place = a.place[row * a.top_k + k];
      if (place < 0) continue;
      load<N>(x, a.x + place * a.d + j);
#pragma unroll
      for (int n = 0; n < N; ++n) sum[n] += a.round_to == DType::kBf16 ? rounded_to<bf16>(x[n]) : x[n];
    }
    if (a.accumulate) {
      load<N>(x, a.y + i);
#pragma unroll
      for (int n = 0; n < N; ++n) sum[n] = x[n] + sum[n];
    }
    store<N>(a.y + i, sum);
  }
};

}  // namespace

void group_rows(const GroupRows& args, Stream& stream) {
  CudaStream& cuda = cuda_stream(stream);
  const LaunchShape shape = {grid(args.experts), kThreads, sizeof(Shared)};
  launch(cuda, "group_rows", shape, count_kernel, args);
  launch(cuda, "group_rows", shape, place_kernel, args);
}

void gather_rows(const GatherRows& args, Stream& stream) {
  const bool wide = args.d % kWide == 0 && all_wide({args.y, args.x});
  for_type(args.type, [&](auto tag) {
    for_each_element(cuda_stream(stream), "gather_rows", args.rows * args.d, wide,
                     Gather<type_of<decltype(tag)>>{args});
  });
}

void combine_rows(const CombineRows& args, Stream& stream) {
  const bool wide = args.d % kWide == 0 && all_wide({args.y, args.x});
  for_each_element(cuda_stream(stream), "combine_rows", args.rows * args.d, wide, Combine{args});
}

}  // namespace hawser::kernels::cuda
