// Softmax cross entropy, one block per row of logits. The first pass computes the log of the sum of
// exponentials; the second pass overwrites the logits with their gradient. If two rows fit into the shared
// memory of a multiprocessor, the first pass keeps its row there, so that device memory is read once.
#include "kernels/cuda/cross_entropy_row.h"

namespace hawser::kernels::cuda {
namespace {

constexpr int64_t kMostRowBytes = 108 << 10;

/// The sums of a block, followed by its row, in shared memory.
template <class T>
struct SharedRow {
  Shared sums;
  alignas(16) T row[1];
};

/// The first pass over a row that it keeps in shared memory.
template <class T>
struct KeptExponentials {
  Exponentials<T> exponentials;
  T* row;

  template <int N>
  __device__ void at(int64_t j, float* x) const {
    store<N>(row + j, x);
    exponentials.template at<N>(j, x);
  }
};

template <class T, bool kKeepsRow>
__global__ void __launch_bounds__(kThreads) cross_entropy_kernel(const CrossEntropy a, int64_t stride) {
  auto& memory = shared_memory<SharedRow<T>>();
  Shared& shared = memory.sums;
  const int64_t row = blockIdx.x;
  T* z = static_cast<T*>(a.logits) + row * stride;
  const int32_t target = a.targets[row];
  if (target == -100) {
    if (threadIdx.x == 0) a.losses[row] = 0.0f;
    if (a.backward || a.softcap > 0) over_row(z, a.vocab, Masked<T>{z, a.softcap, a.backward});
    return;
  }
  // Reads the target before any logit is overwritten; the first barrier orders the two.
  const float at_target = capped(to_float(z[target]), a.softcap);
  LogSumExp all = {-INFINITY, 0.0};
  __syncthreads();
  const Exponentials<T> exponentials = {&all, z, a.softcap, !a.backward && a.softcap > 0};
  if constexpr (kKeepsRow) {
    over_row(z, a.vocab, KeptExponentials<T>{exponentials, memory.row});
  } else {
    over_row(z, a.vocab, exponentials);
  }
  all = over_block(all, shared);
  const float weight = a.weights != nullptr ? a.weights[row] : 1.0f;
  if (threadIdx.x == 0)
    a.losses[row] = static_cast<float>((log(all.sum) + (static_cast<double>(all.max) - at_target)) * weight);
  if (!a.backward) return;
  const float scale = *a.grad_scale * weight;
  over_row(kKeepsRow ? memory.row : z, a.vocab,
           Gradient<T>{z, a.softcap, all.max, static_cast<float>(scale / all.sum)});
  __syncthreads();
  if (threadIdx.x != 0) return;
  z[target] = from_float<T>(target_gradient(at_target, all, a.softcap, scale));
}

struct Cap {
  SoftCap a;

  template <int N>
  __device__ void at(int64_t i) const {
    float x[N];
    load<N>(x, a.x + i);
#pragma unroll
    for (int k = 0; k < N; ++k) x[k] = capped(x[k], a.softcap);
    store<N>(a.x + i, x);
  }
};

}  // namespace

void cross_entropy(const CrossEntropy& args, Stream& stream) {
  if (args.rows <= 0 || args.vocab <= 0) return;
  CudaStream& cuda = cuda_stream(stream);
  const int64_t stride = args.stride != 0 ? args.stride : args.vocab;
  for_type(args.type, [&](auto tag) {
    using T = type_of<decltype(tag)>;
    const int64_t row_bytes = args.vocab * static_cast<int64_t>(sizeof(T));
    const size_t kept_bytes = sizeof(SharedRow<T>) + static_cast<size_t>(row_bytes);
    const bool keeps = args.backward && row_bytes <= kMostRowBytes && kept_bytes <= cuda.most_shared_bytes &&
                       wide_rows(args.logits, stride, args.type);
    launch(cuda, "cross_entropy", {grid(args.rows), kThreads, keeps ? kept_bytes : sizeof(SharedRow<T>)},
           keeps ? cross_entropy_kernel<T, true> : cross_entropy_kernel<T, false>, args, stride);
  });
}

void soft_cap(const SoftCap& args, Stream& stream) {
  if (!(args.softcap > 0)) return;
  for_each_element(cuda_stream(stream), "soft_cap", args.n, all_wide({args.x}), Cap{args});
}

}  // namespace hawser::kernels::cuda
