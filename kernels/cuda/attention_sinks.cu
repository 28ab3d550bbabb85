// Attention sinks: a warp works on one head of a row.
#include "kernels/cuda/launch.h"
#include "kernels/cuda/packed.h"
#include "kernels/cuda/table.h"
#include "kernels/cuda/team.h"
#include "kernels/cuda/types.h"

namespace hawser::kernels::cuda {
namespace {

constexpr int kSinkWarps = 8;

/// One head of a row: where its elements and its log-sum-exp are.
struct SinkHead {
  int64_t row, head, lse, element;
  bool exists;

  __device__ explicit SinkHead(const SinkRows& s) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * kSinkWarps + warp_of_thread();
    row = i / s.heads, head = i % s.heads;
    lse = (row / s.seq * s.heads + head) * s.seq + row % s.seq;
    element = row * s.o_stride + head * s.value_dim;
    exists = i < s.batch * s.seq * s.heads;
  }
};

template <class T>
__global__ void __launch_bounds__(kSinkWarps* kWarpLanes) join_kernel(const SinkForward a) {
  const SinkHead at(a.s);
  if (!at.exists) return;
  const float sink = a.s.sinks[at.head], lse = a.lse[at.lse];
  if (sink == -INFINITY) return;
  const float larger = fmaxf(lse, sink), others = expf(lse - larger), sum = others + expf(sink - larger);
  T* const o = static_cast<T*>(a.o) + at.element;
  for (int64_t j = lane_of_thread(); j < a.s.value_dim; j += kWarpLanes)
    o[j] = from_float<T>(to_float(o[j]) * (others / sum));
  __syncwarp();
  if (lane_of_thread() == 0) a.lse[at.lse] = larger + logf(sum);
}

template <class T>
__global__ void __launch_bounds__(kSinkWarps* kWarpLanes) term_kernel(const SinkBackward a) {
  const SinkHead at(a.s);
  if (!at.exists) return;
  float sum = 0.0f;
  for (int64_t j = lane_of_thread(); j < a.s.value_dim; j += kWarpLanes) {
    sum = fmaf(to_float(static_cast<const T*>(a.dout)[at.element + j]),
               to_float(static_cast<const T*>(a.o)[at.element + j]), sum);
  }
  sum = warp_sum(sum);
  const float sink = a.s.sinks[at.head];
  if (lane_of_thread() == 0)
    a.terms[at.row * a.columns + a.first + at.head] =
        sink == -INFINITY ? 0.0f : -expf(sink - a.lse[at.lse]) * sum;
}

int64_t blocks_of(const SinkRows& s) { return blocks_for(s.batch * s.seq * s.heads, kSinkWarps); }

}  // namespace

void sink_forward(const SinkForward& args, Stream& stream) {
  if (args.s.batch * args.s.seq * args.s.heads == 0) return;
  for_type(args.s.type, [&](auto tag) {
    launch(cuda_stream(stream), "sink_forward", {grid(blocks_of(args.s)), kSinkWarps * kWarpLanes},
           join_kernel<type_of<decltype(tag)>>, args);
  });
}

void sink_backward(const SinkBackward& args, Stream& stream) {
  if (args.s.batch * args.s.seq * args.s.heads == 0) return;
  CudaStream& cuda = cuda_stream(stream);
  const auto bytes = static_cast<size_t>(args.s.batch * args.s.seq * args.columns) * sizeof(float);
  if (args.columns > args.s.heads &&
      !cuda.succeeded(cudaMemsetAsync(args.terms, 0, bytes, cuda.handle), "sink_backward"))
    return;
  for_type(args.s.type, [&](auto tag) {
    launch(cuda, "sink_backward", {grid(blocks_of(args.s)), kSinkWarps * kWarpLanes},
           term_kernel<type_of<decltype(tag)>>, args);
  });
}

}  // namespace hawser::kernels::cuda
