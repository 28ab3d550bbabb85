// The activation of experts, multiplied by the token's weight: one warp for each row, which also sums the
// weight's gradient.
#include "kernels/cuda/activation_formulas.h"
#include "kernels/cuda/table.h"
#include "kernels/cuda/team.h"
#include "kernels/cuda/types.h"

namespace hawser::kernels::cuda {
namespace {

constexpr int kWarps = 4, kThreads = kWarps * kWarpLanes;

/// Calls body(row, its choice, its weight) for the rows of a warp.
template <class Body>
__device__ __forceinline__ void each_row(const ExpertActivation& a, const Body& body) {
  const int64_t rows = a.end != nullptr ? *a.end : a.rows;
  for (int64_t row = static_cast<int64_t>(blockIdx.x) * kWarps + warp_of_thread(); row < rows;
       row += static_cast<int64_t>(gridDim.x) * kWarps) {
    const int64_t choice = a.order != nullptr ? a.order[row] : row;
    body(row, choice, a.weights != nullptr ? a.weights[choice] : 1.0f);
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads) forward_kernel(const ExpertActivationForward a) {
  each_row(a, [&](int64_t row, int64_t, float weight) {
    const T* h = static_cast<const T*>(a.h) + row * a.f * (a.gated ? 2 : 1);
    T* y = static_cast<T*>(a.y) + row * a.f;
    for (int64_t j = lane_of_thread(); j < a.f; j += kWarpLanes) {
      float value = activation(a.kind, to_float(h[j])).value;
      if (a.gated) value *= factor(a.kind, to_float(h[a.f + j])).value;
      y[j] = from_float<T>(value * weight);
    }
  });
}

template <class T>
__global__ void __launch_bounds__(kThreads) backward_kernel(const ExpertActivationBackward a) {
  each_row(a, [&](int64_t row, int64_t choice, float weight) {
    const int64_t at = row * a.f * (a.gated ? 2 : 1);
    const T *h = static_cast<const T*>(a.h) + at, *dy = static_cast<const T*>(a.dy) + row * a.f;
    T *dh = static_cast<T*>(a.dh) + at, *y = static_cast<T*>(a.y) + row * a.f;
    float sum = 0;
    for (int64_t j = lane_of_thread(); j < a.f; j += kWarpLanes) {
      const ValueAndSlope act = activation(a.kind, to_float(h[j]));
      const ValueAndSlope up = a.gated ? factor(a.kind, to_float(h[a.f + j])) : ValueAndSlope{1.0f, 0.0f};
      const float value = act.value * up.value, grad = to_float(dy[j]);
      sum = fmaf(grad, value, sum);
      const float weighted = grad * weight;
      dh[j] = from_float<T>(weighted * up.value * act.slope);
      if (a.gated) dh[a.f + j] = from_float<T>(weighted * act.value * up.slope);
      y[j] = from_float<T>(value * weight);
    }
    sum = warp_sum(sum);
    if (a.dweights != nullptr && lane_of_thread() == 0) a.dweights[choice] = sum;
  });
}

LaunchShape shape_of(const CudaStream& stream, int64_t rows) {
  const int64_t wanted = blocks_for(rows, kWarps), most = int64_t{stream.multiprocessors} * 32;
  return {grid(wanted < most ? wanted : most), kThreads};
}

}  // namespace

void expert_activation_forward(const ExpertActivationForward& args, Stream& stream) {
  if (args.rows <= 0 || args.f <= 0) return;
  CudaStream& cuda = cuda_stream(stream);
  for_type(args.type, [&](auto tag) {
    launch(cuda, "expert_activation_forward", shape_of(cuda, args.rows),
           forward_kernel<type_of<decltype(tag)>>, args);
  });
}

void expert_activation_backward(const ExpertActivationBackward& args, Stream& stream) {
  if (args.rows <= 0 || args.f <= 0) return;
  CudaStream& cuda = cuda_stream(stream);
  for_type(args.type, [&](auto tag) {
    launch(cuda, "expert_activation_backward", shape_of(cuda, args.rows),
           backward_kernel<type_of<decltype(tag)>>, args);
  });
}

}  // namespace hawser::kernels::cuda
