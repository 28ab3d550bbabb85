// Statistics of routers: sums over fixed pieces of each row of the batch, then over the pieces in order; and
// the update of the balance bias.
#include "kernels/cuda/router_row.h"
#include "kernels/cuda/table.h"

namespace hawser::kernels::cuda {
namespace {

struct Shared {
  float log_sum_exp[kStatisticsRows], factor[kStatisticsRows];
};

/// One block computes each piece: warps compute the norms of its rows, then each thread sums over the rows
/// for its experts.
__global__ void __launch_bounds__(kRouterThreads) pieces_kernel(const RouterStatistics a, int64_t pieces) {
  const RouterShape& s = a.shape;
  auto& shared = shared_memory<Shared>();
  const bool sigmoid = s.score == RouterScore::kSigmoid;
  const int64_t begin = blockIdx.x / pieces * a.seq + blockIdx.x % pieces * kStatisticsRows;
  const int64_t left = a.seq - blockIdx.x % pieces * kStatisticsRows;
  const int rows = static_cast<int>(left < kStatisticsRows ? left : kStatisticsRows);
  const auto own = [&](int r) { return begin + r - a.first_row; };
  const auto has = [&](int r) { return own(r) >= 0 && own(r) < s.rows; };
  for (int r = warp_of_thread(); r < rows; r += kRouterWarps) {
    if (!has(r)) continue;
    const float* const z = a.logits + own(r) * s.experts;
    const float log_sum_exp = log_sum_exp_of(z, s);
    const float sum = sigmoid ? sum_over_experts(s, [&](int e) { return sigmoid_of(z[e]); }) : 1.0f;
    if (lane_of_thread() == 0) shared.log_sum_exp[r] = log_sum_exp, shared.factor[r] = 1.0f / sum;
  }
  __syncthreads();
  float* const out = a.workspace + static_cast<int64_t>(blockIdx.x) * statistics_width(s.experts);
  for (int64_t e = threadIdx.x; e < s.experts; e += kRouterThreads) {
    float count = 0, scores = 0;
    for (int r = 0; r < rows; ++r) {
      if (!has(r)) continue;
      for (int64_t j = 0; j < s.top_k; ++j) count += a.choice[own(r) * s.top_k + j] == e ? 1.0f : 0.0f;
      const float z = a.logits[own(r) * s.experts + e];
      scores += sigmoid ? sigmoid_of(z) * shared.factor[r] : expf(z - shared.log_sum_exp[r]);
    }
    out[e] = count, out[s.experts + e] = scores;
  }
  if (threadIdx.x != 0) return;
  float squares = 0;
  for (int r = 0; r < rows; ++r)
    if (has(r)) squares += shared.log_sum_exp[r] * shared.log_sum_exp[r];
  out[2 * s.experts] = squares;
}

__global__ void __launch_bounds__(kRouterThreads)
    add_pieces_kernel(const RouterStatistics a, int64_t pieces) {
  const int64_t width = statistics_width(a.shape.experts), b = blockIdx.x;
  for (int64_t i = threadIdx.x; i < width; i += kRouterThreads) {
    float sum = 0;
    for (int64_t piece = 0; piece < pieces; ++piece) sum += a.workspace[(b * pieces + piece) * width + i];
    a.out[b * width + i] = sum;
  }
}

__global__ void __launch_bounds__(kRouterThreads) tally_kernel(const RouterTally a) {
  const int64_t experts = a.shape.experts, width = statistics_width(experts);
  for (int64_t e = threadIdx.x; e < experts; e += kRouterThreads) {
    int64_t count = 0;
    for (int64_t b = 0; b < a.batch; ++b) count += static_cast<int64_t>(a.statistics[b * width + e]);
    a.tally[e] += count;
  }
  if (threadIdx.x != 0) return;
  const double factor = balance_factor(experts, a.shape.top_k, a.positions);
  int64_t* const words = a.tally + experts;
  for (int64_t b = 0; b < a.batch; ++b) {
    const float* const row = a.statistics + b * width;
    double balance = 0;
    for (int64_t e = 0; e < experts; ++e)
      balance += static_cast<double>(row[e]) * static_cast<double>(row[experts + e]);
    words[kTallyBalance] += tally_of(balance * factor, kTallyBalanceUnit);
    words[kTallySquares] += tally_of(static_cast<double>(row[2 * experts]), kTallySquaresUnit);
  }
  words[kTallyDropped] += a.shape.rows * a.shape.top_k - a.offsets[experts];
  words[kTallyRounds] += a.rounds;
}

__global__ void __launch_bounds__(kRouterThreads) balance_kernel(const RouterBalance a) {
  int64_t total = 0;
  for (int64_t e = 0; e < a.experts; ++e) total += a.load[e];
  for (int64_t i = threadIdx.x; i < a.count; i += kRouterThreads) {
    const int64_t load = a.load[a.first + i] * a.experts;  // the mean load is total / experts
    a.bias[i] += load < total ? a.rate : load > total ? -a.rate : 0.0f;
  }
}

}  // namespace

void router_statistics(const RouterStatistics& args, Stream& stream) {
  if (args.batch <= 0) return;
  CudaStream& cuda = cuda_stream(stream);
  const int64_t pieces = blocks_for(args.seq, kStatisticsRows);
  launch(cuda, "router_statistics", {grid(args.batch * pieces), kRouterThreads, sizeof(Shared)},
         pieces_kernel, args, pieces);
  launch(cuda, "router_statistics", {grid(args.batch), kRouterThreads}, add_pieces_kernel, args, pieces);
}

void router_tally(const RouterTally& args, Stream& stream) {
  launch(cuda_stream(stream), "router_tally", {grid(1), kRouterThreads}, tally_kernel, args);
}

void router_balance(const RouterBalance& args, Stream& stream) {
  if (args.count <= 0) return;
  launch(cuda_stream(stream), "router_balance", {grid(1), kRouterThreads}, balance_kernel, args);
}

}  // namespace hawser::kernels::cuda
