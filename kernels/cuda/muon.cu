// The element-wise parts of Muon in one pass over memory each.
#include "kernels/cuda/elements.h"
#include "kernels/cuda/shared_memory.h"
#include "kernels/cuda/table.h"
#include "kernels/cuda/types.h"

namespace hawser::kernels::cuda {
namespace {

struct MomentumStep {
  MuonMomentum a;

  template <int N>
  __device__ void at(int64_t i) const {
    const float scale = a.scalars->grad_scale, rest = 1.0f - a.momentum;
    float m[N], u[N], grad[N];
    load<N>(m, a.m + i);
    load<N>(grad, a.grad + i);
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const float g = rest * (grad[k] * scale);
      m[k] = fmaf(a.momentum, m[k], g);
      u[k] = fmaf(a.momentum, m[k], g);
    }
    store<N>(a.m + i, m);
    store<N>(a.u + i, u);
  }
};

/// Returns alpha, divided by the root of the squares, if there are any. A sum of squares has no negative
/// limb, so adding from the largest limb on loses less than the rounding of the result to f32.
__device__ float factor_of(const Axpby& a) {
  if (a.squares == nullptr) return a.alpha;
  double sum = 0.0;
  for (int limb = ExactSum::kLimbs - 1; limb >= 0; --limb) {
    const int64_t units = a.squares->words[limb];
    if (units != 0) sum += scalbn(static_cast<double>(units), ExactSum::kLimbBits * limb - 1074);
  }
  if (a.squares->words[ExactSum::kPlusInfinity] != 0) sum = INFINITY;
  if (a.squares->words[ExactSum::kNan] != 0) sum = NAN;
  const double root = sqrt(sum), eps = static_cast<double>(a.eps);
  return static_cast<float>(static_cast<double>(a.alpha) / (root < eps ? eps : root));
}

struct Shared {
  float alpha;
};

template <class T>
__global__ void __launch_bounds__(kElementThreads) combine_kernel(const Axpby a) {
  auto& shared = shared_memory<Shared>();
  if (threadIdx.x == 0) shared.alpha = factor_of(a);
  __syncthreads();
  const float alpha = shared.alpha;
  const int64_t threads = static_cast<int64_t>(gridDim.x) * kElementThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kElementThreads + threadIdx.x; i < a.n; i += threads) {
    float sum = alpha * a.x[i];
    if (a.y != nullptr) sum = fmaf(a.beta, to_float(static_cast<const T*>(a.y)[i]), sum);
    static_cast<T*>(a.out)[i] = from_float<T>(sum);
  }
}

struct UpdateStep {
  MuonUpdate a;

  template <int N>
  __device__ void at(int64_t i) const {
    const float lr = a.scalars->lr * a.rate, along = lr * a.scale, decay = lr * a.weight_decay;
    float w[N], direction[N];
    load<N>(w, a.weight + i);
    load<N>(direction, a.direction + i);
#pragma unroll
    for (int k = 0; k < N; ++k) w[k] = fmaf(-along, direction[k], fmaf(-decay, w[k], w[k]));
    store<N>(a.weight + i, w);
    if (a.copy != nullptr) store<N>(static_cast<bf16*>(a.copy) + i, w);
  }
};

}  // namespace

void muon_momentum(const MuonMomentum& args, Stream& stream) {
  const bool wide = all_wide({args.m, args.u, args.grad});
  for_each_element(cuda_stream(stream), "muon_momentum", args.n, wide, MomentumStep{args});
}

void axpby(const Axpby& args, Stream& stream) {
  CudaStream& cuda = cuda_stream(stream);
  if (args.n <= 0) return;
  const int64_t wanted = blocks_for(args.n, int64_t{kElementThreads} * 4);
  const int64_t most = int64_t{cuda.multiprocessors} * 16;
  for_type(args.type, [&](auto tag) {
    launch(cuda, "axpby", {grid(wanted < most ? wanted : most), kElementThreads, sizeof(Shared)},
           combine_kernel<type_of<decltype(tag)>>, args);
  });
}

void muon_update(const MuonUpdate& args, Stream& stream) {
  const bool wide = all_wide({args.weight, args.direction, args.copy});
  for_each_element(cuda_stream(stream), "muon_update", args.n, wide, UpdateStep{args});
}

}  // namespace hawser::kernels::cuda
