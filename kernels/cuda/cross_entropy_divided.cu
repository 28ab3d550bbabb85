// Softmax cross entropy of ranks that divide the vocabulary, one block per row: the statistics of a rank's
// part, and the loss and gradient from the statistics of all ranks.
#include "kernels/cuda/cross_entropy_row.h"

namespace hawser::kernels::cuda {
namespace {

__device__ __forceinline__ int64_t row_stride(const CrossEntropy& own) {
  return own.stride != 0 ? own.stride : own.vocab;
}

/// Returns the column of a row's target in the local part of the vocabulary; -1 if another rank has it.
__device__ __forceinline__ int64_t own_target(const CrossEntropy& own, int64_t first_word, int64_t row) {
  const int64_t word = own.targets[row] - first_word;
  return own.targets[row] >= 0 && word >= 0 && word < own.vocab ? word : -1;
}

template <class T>
__global__ void __launch_bounds__(kThreads) statistics_kernel(const CrossEntropyStatistics a) {
  auto& shared = shared_memory<Shared>();
  const int64_t row = blockIdx.x;
  T* z = static_cast<T*>(a.own.logits) + row * row_stride(a.own);
  LogSumExp all = {-INFINITY, 0.0};
  over_row(z, a.own.vocab, Exponentials<T>{&all, z, a.own.softcap, false});
  all = over_block(all, shared);
  if (threadIdx.x != 0) return;
  const int64_t target = own_target(a.own, a.first_word, row);
  float* out = a.statistics + row * kRowStatistics;
  out[0] = all.max;
  out[1] = static_cast<float>(all.sum);
  out[2] = target >= 0 ? capped(to_float(z[target]), a.own.softcap) : 0.0f;
}

/// Combines the statistics of a row over all ranks. A rank without vocabulary entries has a maximum of -inf
/// and adds nothing.
__device__ __forceinline__ LogSumExp combine(const CrossEntropyDivided& a, int64_t row, double& at_target) {
  const auto of = [&](int64_t rank) { return a.statistics + (rank * a.own.rows + row) * kRowStatistics; };
  LogSumExp all = {-INFINITY, 0.0};
  for (int64_t rank = 0; rank < a.ranks; ++rank) all.max = fmaxf(all.max, of(rank)[0]);
  at_target = 0.0;
  for (int64_t rank = 0; rank < a.ranks; ++rank) {
    all.sum += of(rank)[1] * exp(static_cast<double>(of(rank)[0]) - all.max);
    at_target += of(rank)[2];
  }
  return all;
}

template <class T>
__global__ void __launch_bounds__(kThreads) divided_kernel(const CrossEntropyDivided a) {
  const int64_t row = blockIdx.x;
  const CrossEntropy& own = a.own;
  T* z = static_cast<T*>(own.logits) + row * row_stride(own);
  if (own.targets[row] == -100) {
    if (threadIdx.x == 0) own.losses[row] = 0.0f;
    if (own.backward || own.softcap > 0) over_row(z, own.vocab, Masked<T>{z, own.softcap, own.backward});
    return;
  }
  double at_target = 0.0;
  const LogSumExp all = combine(a, row, at_target);
  const float weight = own.weights != nullptr ? own.weights[row] : 1.0f;
  if (threadIdx.x == 0)
    own.losses[row] =
        static_cast<float>((log(all.sum) + (static_cast<double>(all.max) - at_target)) * weight);
  if (!own.backward) {
    if (own.softcap > 0) over_row(z, own.vocab, Masked<T>{z, own.softcap, false});
    return;
  }
  const float scale = *own.grad_scale * weight;
  const int64_t target = own_target(own, a.first_word, row);
  over_row(z, own.vocab, Gradient<T>{z, own.softcap, all.max, static_cast<float>(scale / all.sum)});
  __syncthreads();
  if (threadIdx.x == 0 && target >= 0)
    z[target] = from_float<T>(target_gradient(static_cast<float>(at_target), all, own.softcap, scale));
}

}  // namespace

void cross_entropy_statistics(const CrossEntropyStatistics& args, Stream& stream) {
  if (args.own.rows <= 0) return;
  for_type(args.own.type, [&](auto tag) {
    launch(cuda_stream(stream), "cross_entropy_statistics", {grid(args.own.rows), kThreads, sizeof(Shared)},
           statistics_kernel<type_of<decltype(tag)>>, args);
  });
}

void cross_entropy_divided(const CrossEntropyDivided& args, Stream& stream) {
  if (args.own.rows <= 0) return;
  for_type(args.own.type, [&](auto tag) {
    launch(cuda_stream(stream), "cross_entropy_divided", {grid(args.own.rows), kThreads, 0},
           divided_kernel<type_of<decltype(tag)>>, args);
  });
}

}  // namespace hawser::kernels::cuda
