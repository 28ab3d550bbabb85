// Softmax cross entropy, one block per row of logits: one pass for the log of the sum of exponentials, and one that
// overwrites the logits with their gradient.
#include "kernels/cuda/cross_entropy_row.h"

namespace hawser::kernels::cuda {
namespace {

template <class T>
__global__ void __launch_bounds__(kThreads) cross_entropy_kernel(const CrossEntropy a, int64_t stride) {
  auto& shared = shared_memory<Shared>();
  const int64_t row = blockIdx.x;
  T* z = static_cast<T*>(a.logits) + row * stride;
  const int32_t target = a.targets[row];
  if (target == -100) {
    if (threadIdx.x == 0) a.losses[row] = 0.0f;
    if (a.backward || a.softcap > 0) over_row(z, a.vocab, Masked<T>{z, a.softcap, a.backward});
    return;
  }
  // Read before anything is overwritten: the first barrier orders it.
  const float at_target = capped(to_float(z[target]), a.softcap);
  LogSumExp all = {-INFINITY, 0.0};
  __syncthreads();
  over_row(z, a.vocab, Exponentials<T>{&all, z, a.softcap, !a.backward && a.softcap > 0});
  all = over_block(all, shared);
  const float weight = a.weights != nullptr ? a.weights[row] : 1.0f;
  if (threadIdx.x == 0)
    a.losses[row] = static_cast<float>((log(all.sum) + (static_cast<double>(all.max) - at_target)) * weight);
  if (!a.backward) return;
  const float scale = *a.grad_scale * weight;
  over_row(z, a.vocab, Gradient<T>{z, a.softcap, all.max, static_cast<float>(scale / all.sum)});
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
  for_type(args.type, [&](auto tag) {
    launch(cuda_stream(stream), "cross_entropy", {grid(args.rows), kThreads, sizeof(Shared)},
           cross_entropy_kernel<type_of<decltype(tag)>>, args, args.stride != 0 ? args.stride : args.vocab);
  });
}

void soft_cap(const SoftCap& args, Stream& stream) {
  if (!(args.softcap > 0)) return;
  for_each_element(cuda_stream(stream), "soft_cap", args.n, all_wide({args.x}), Cap{args});
}

}  // namespace hawser::kernels::cuda
