// Deltas of attention's backward: computes dout · o of every query, which both of our implementations need
// (FlashAttention-2, algorithm 2, line 4).
#include "kernels/cuda/attention.h"
#include "kernels/cuda/attention_tile.h"

namespace hawser::kernels::cuda {
namespace {

constexpr int kDeltaWarps = 8;

/// Computes delta[b, h, t] = dout · o, one warp for each.
template <class T>
__global__ void __launch_bounds__(kDeltaWarps* kWarpLanes) delta_kernel(const AttentionBackward a) {
  const AttentionShape& s = a.s;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kDeltaWarps + warp_of_thread();
  if (i >= s.batch * s.heads * s.seq_q) return;
  const Head head = {i / s.seq_q / s.heads, i / s.seq_q % s.heads};
  const int64_t at = out_at(s, head, i % s.seq_q);
  float sum = 0.0f;
  for (int64_t j = lane_of_thread(); j < s.v_dim(); j += kWarpLanes) {
    sum = fmaf(to_float(static_cast<const T*>(a.dout)[at + j]), to_float(static_cast<const T*>(a.o)[at + j]),
               sum);
  }
  sum = warp_sum(sum);
  if (lane_of_thread() == 0) static_cast<float*>(a.workspace)[i] = sum;
}

}  // namespace

void attention_deltas(const AttentionBackward& args, CudaStream& stream) {
  const int64_t rows = args.s.batch * args.s.heads * args.s.seq_q;
  if (rows == 0) return;
  for_type(args.s.type, [&](auto tag) {
    launch(stream, "attention_backward", {grid(blocks_for(rows, kDeltaWarps)), kDeltaWarps * kWarpLanes},
           delta_kernel<type_of<decltype(tag)>>, args);
  });
}

}  // namespace hawser::kernels::cuda
